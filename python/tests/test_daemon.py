"""The daemon: how it is found, and that it may end while a client waits."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import PATIENCE, until

import muster
from muster import blocking, daemon, sockets, waiting
from muster.calls import HttpCall, Pause
from muster.target import Target


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


def test_a_directory_that_is_missing_or_of_another_user_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MUSTER_HOME")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/does/not/exist")
    assert sockets.personal() == f"/tmp/muster-{os.geteuid()}/muster.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert sockets.personal() == f"{tmp_path}/muster/muster.sock"
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert sockets.personal() == f"/tmp/muster-{other}/muster.sock"


def test_the_variable_names_a_socket(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(home / "elsewhere"))
    monkeypatch.setenv("MUSTER_SOCKET", str(home / "m" / "run" / "muster.sock"))
    # The program refuses both variables together; here the socket is for this machine only.
    monkeypatch.setenv("MUSTER_ON", "local")
    job = muster.run("true")
    assert job.wait() == 0 and job.explain().state == "done"
    monkeypatch.delenv("MUSTER_SOCKET")
    assert muster.connect(socket=home / "m" / "run" / "muster.sock").job(job.id).state == "done"


def test_waiting_survives_a_daemon_that_is_killed(
    other_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "_PATIENCE", 0.5)
    send = blocking._request
    polls: list[float] = []

    def recorded(call: HttpCall) -> Any:
        if call.path == "/v1/changes":
            polls.append(time.monotonic())
        return send(call)

    monkeypatch.setattr(blocking, "_request", recorded)
    client = muster.connect(virtual_gpus=1)
    go = tmp_path / "go"
    job = client.run(f"until test -e {go}; do sleep 0.02; done; exit 7")
    codes: list[int] = []
    waiter = threading.Thread(target=lambda: codes.append(job.wait()))
    waiter.start()
    info = blocking.run(daemon.request(None, "GET", "/v1/daemon"))
    until(lambda: polls != [] and time.monotonic() > polls[-1] + 1, "a long poll is open for 1 s")
    # Counted from the failure on; the other daemon may need more than 0.5 s to start.
    monkeypatch.setattr(daemon, "_PATIENCE", PATIENCE)
    os.kill(info["pid"], signal.SIGKILL)
    assert client.run("true").wait() == 0  # starts another one
    go.touch()
    waiter.join(30)
    assert codes == [7]


def test_patience_begins_again_after_an_attempt_that_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    request = daemon.request("/none.sock", "GET", "/v1/changes")
    assert isinstance(next(request), HttpCall)
    for _ in range(3):
        clock[0] += 2 * daemon._PATIENCE
        assert isinstance(request.throw(ConnectionResetError()), Pause)
        assert isinstance(request.send(None), HttpCall)
    clock[0] += daemon._PATIENCE / 2
    assert isinstance(request.throw(ConnectionRefusedError()), Pause)
    assert isinstance(request.send(None), HttpCall)
    clock[0] += daemon._PATIENCE
    with pytest.raises(muster.NoDaemon):
        request.throw(ConnectionResetError())


def test_a_get_is_repeated_while_there_are_too_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    request = daemon.request("/none.sock", "GET", "/v1/jobs")
    for _ in range(2):
        assert isinstance(next(request), HttpCall)
        assert request.throw(muster.Busy("full")) == Pause(daemon._BUSY_PAUSE)
        clock[0] += 0.6 * daemon._PATIENCE
    assert isinstance(next(request), HttpCall)
    with pytest.raises(muster.Busy):
        request.throw(muster.Busy("full"))
    request = daemon.request("/none.sock", "GET", "/v1/jobs", deadline=clock[0] + 0.1)
    next(request)
    pause = request.throw(muster.Busy("full"))
    assert isinstance(pause, Pause) and pause.seconds <= 0.11
    clock[0] += 0.2
    with pytest.raises(TimeoutError):
        next(request)
    request = daemon.request("/none.sock", "POST", "/v1/jobs/1/hold")
    next(request)
    with pytest.raises(muster.Busy):
        request.throw(muster.Busy("full"))


@pytest.mark.parametrize("timeout", [0, 0.1])
def test_waiting_for_a_daemon_that_does_not_answer(
    timeout: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_ONE_LOOK", 0.1)
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(path))
        silent.listen()
        client = muster.connect(socket=path)
        with pytest.raises(muster.WaitTimeout):
            muster.Job(client, Target(1), "one").wait(timeout=timeout)
