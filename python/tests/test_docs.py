"""docs/python.md: its examples run as they are, and it names every error and function of `muster`."""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

import muster

DOCS = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_examples_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train.py", "prepare.py"):
        (tmp_path / name).write_text(f"print('this is {name}')\n")
    # Not every machine has a program of that name.
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    assert len(examples) == 7
    # submitit pickles the functions of a program itself, and imports those of modules.
    names: Dict[str, Any] = {"__name__": "__main__"}
    for example in examples:
        exec(compile(example, str(DOCS), "exec"), names)
    assert (names["code"], names["codes"], names["failed"]) == (0, [0, 0], [])
    printed = capsys.readouterr().out
    expected = ["this is train.py", "write `90s` for seconds", "rank 0 exited with 3", "[0, 1, 2, 3]"]
    for text in [*expected, "49", "[0, 1, 4]"]:
        assert text in printed, printed
    assert names["job"].wait() == 0


def test_errors_and_functions_are_described() -> None:
    text = DOCS.read_text()
    for name in muster.__all__:
        kind = getattr(muster, name)
        is_error = isinstance(kind, type) and issubclass(kind, muster.MusterError)
        if is_error or kind is muster.MusterWarning:
            assert f"`{name}`" in text, name
        elif inspect.isfunction(kind):
            assert f"muster.{name}(" in text, name
