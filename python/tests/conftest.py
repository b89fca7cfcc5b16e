"""Runs the tests against a real daemon: the program named by `MUSTER`, in directories of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest

import muster

GPUS = 4

#: Longest wait for a condition, on a busy machine.
PATIENCE = 60.0

#: Variables that would name another daemon or cluster.
FOREIGN = ["MUSTER_ON", "MUSTER_SOCKET", "MUSTER_SITE", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"]


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def binary() -> str:
    """Path of the program; the tests fail without one."""
    path = os.environ.get("MUSTER", "")
    assert os.access(path, os.X_OK), "MUSTER must name the program, such as target/debug/muster"
    return os.path.abspath(path)


@pytest.fixture(scope="session", autouse=True)
def home(binary: str) -> Iterator[Path]:
    """Home of a daemon with virtual GPUs, which the first submission starts."""
    # Paths of sockets are limited to about 100 bytes, so not pytest's own directory.
    top = Path(tempfile.mkdtemp(prefix="mpy-"))
    (top / "bin").mkdir()
    (top / "bin" / "muster").symlink_to(binary)
    (top / "work").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{top / 'bin'}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("HOME", str(top))
        patch.setenv("MUSTER_HOME", str(top / "m"))
        # Jobs of submitit import the functions of the tests.
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        for name in FOREIGN:
            patch.delenv(name, raising=False)
        patch.chdir(top / "work")
        client = muster.connect(virtual_gpus=GPUS)
        assert client.run("true", name="first").wait() == 0
        yield top
        subprocess.run(["muster", "stop-daemon", "--cancel"], check=True, stderr=subprocess.DEVNULL)
    shutil.rmtree(top)


@pytest.fixture
def blocker() -> Iterator[muster.Job]:
    """Running job that holds all GPUs."""
    job = muster.run(["sleep", "600"], gpus=GPUS, name="blocker")
    until(lambda: job.state == "running", "the blocker runs")
    yield job
    job.cancel()
    job.wait()
