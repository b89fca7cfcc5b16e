"""The daemon: how it is found, and that it may end while a client waits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Iterator

import pytest

import muster
from muster import blocking, daemon, sockets


@pytest.fixture
def other_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Home without MUSTER_HOME, as users have it."""
    top = Path(tempfile.mkdtemp(prefix="mpy-"))
    (top / "run").mkdir(mode=0o700)
    monkeypatch.delenv("MUSTER_HOME")
    monkeypatch.setenv("HOME", str(top))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(top / "run"))
    yield top
    subprocess.run(["muster", "stop-daemon", "--cancel"], check=True, stderr=subprocess.DEVNULL)
    shutil.rmtree(top)


def test_the_socket_is_found_where_the_program_makes_it(other_home: Path) -> None:
    client = muster.connect(virtual_gpus="1:h100")
    with pytest.raises(muster.NoDaemon):
        client.jobs()
    assert client.run("true", gpu="h100", gpus=1).wait() == 0
    assert sockets.personal() == str(other_home / "run" / "muster" / "muster.sock")
    assert os.path.exists(sockets.personal())


def test_a_directory_of_another_user_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_HOME")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/does/not/exist")
    assert sockets.personal() == f"/tmp/muster-{os.geteuid()}/muster.sock"


def test_the_variable_names_a_socket(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(home / "elsewhere"))
    monkeypatch.setenv("MUSTER_SOCKET", str(home / "m" / "run" / "muster.sock"))
    # The program refuses both variables together; here the socket is for this machine only.
    monkeypatch.setenv("MUSTER_ON", "local")
    job = muster.run("true")
    assert job.wait() == 0 and job.explain().state == "done"
    monkeypatch.delenv("MUSTER_SOCKET")
    assert muster.connect(socket=home / "m" / "run" / "muster.sock").job(job.id).state == "done"


def test_waiting_survives_a_daemon_that_is_killed(other_home: Path, tmp_path: Path) -> None:
    client = muster.connect(virtual_gpus=1)
    go = tmp_path / "go"
    job = client.run(f"until test -e {go}; do sleep 0.02; done; exit 7")
    codes: list[int] = []
    waiting = threading.Thread(target=lambda: codes.append(job.wait()))
    waiting.start()
    info = blocking.run(daemon.request(None, "GET", "/v1/daemon"))
    os.kill(info["pid"], signal.SIGKILL)
    assert client.run("true").wait() == 0  # starts another one
    go.touch()
    waiting.join(30)
    assert codes == [7]
