"""pytest plug-in that reports as Rust's tests do, for `cargo xtask python`, which counts and times such lines."""

from __future__ import annotations

import pytest


class CargoLines:
    """Prints a line per test, then the failures, then the counts."""

    def __init__(self) -> None:
        self.counts = {"passed": 0, "failed": 0, "ignored": 0}
        self.failures: list[tuple[str, str]] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        print(f"running {len(items)} tests", flush=True)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed(report.nodeid, report.longreprtext)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            first = "" if crash is None else f"{crash}\n"
            self._failed(report.nodeid, f"{first}{report.longreprtext}\n{report.capstdout}{report.capstderr}")
        elif report.when == "call":
            self._line(report.nodeid, "passed", "ok") if report.passed else self._skipped(report)
        elif report.skipped:
            self._skipped(report)

    def pytest_sessionfinish(self) -> None:
        if self.failures:
            print("\nfailures:\n")
        for name, text in self.failures:
            print(f"---- {name} stdout ----\n{text}\n")
        result = "FAILED" if self.failures else "ok"
        counted = "; ".join(f"{number} {what}" for what, number in self.counts.items())
        print(f"\nfailures:\n\ntest result: {result}. {counted}", flush=True)

    def _skipped(self, report: pytest.TestReport) -> None:
        self._line(report.nodeid, "ignored", "ignored")

    def _failed(self, name: str, text: str) -> None:
        self.failures.append((name, text))
        self._line(name, "failed", "FAILED")

    def _line(self, name: str, what: str, word: str) -> None:
        self.counts[what] += 1
        print(f"test {name} ... {word}", flush=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CargoLines())
