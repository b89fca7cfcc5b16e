"""Errors: their types, and the hints of Muster in them."""

from __future__ import annotations

import os
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import muster
from muster import errors, jobfile
from muster.calls import decoded


def test_a_wrong_field_has_the_hint_of_the_parser() -> None:
    with pytest.raises(muster.InvalidSpec) as wrong:
        muster.run("true", gpu_per_task=1)
    assert wrong.value.code == "invalid_spec"
    text = str(wrong.value)
    assert text.startswith("there is no field `gpu-per-task`")
    assert "gpu-per-task: 1" in text and "hint:" in text and "gpus-per-task" in text
    assert isinstance(wrong.value, ValueError)


def test_a_wrong_value_has_the_hint_of_the_parser() -> None:
    with pytest.raises(muster.InvalidSpec, match="write `90s` for seconds"):
        muster.run("true", time="90")


@pytest.mark.parametrize(
    ("work", "fields", "hint"),
    [
        (len, {}, "submitit"),
        (b"true", {}, "a str is a command"),
        ("true", {"env": {"A": object()}}, "text, numbers"),
        ("true", {"array": range(0)}, "array=range"),
        ("echo \udc80", {}, "the field 'run' is not valid Unicode text: '\\udc80'"),
        ("true", {"env": {"\ud800": "x"}}, "the field 'env' is not valid Unicode"),
    ],
)
def test_values_that_are_no_job_are_refused_before_anything_is_asked(
    work: Any, fields: Any, hint: str
) -> None:
    with pytest.raises(muster.UsageError) as wrong:
        muster.connect(binary="/none").run(work, **fields)
    assert hint in str(wrong.value)


def test_unknown_jobs() -> None:
    for job in (99999, "99999[1]", "no-such-name"):
        with pytest.raises(muster.NotFound) as missing:
            muster.job(job)
        assert isinstance(missing.value, LookupError)


def test_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/var/empty")
    with pytest.raises(muster.NoBinary, match="put it into PATH"):
        muster.run("true")
    job = muster.jobs(all=True)[0]  # The daemon is asked without it.
    assert job.state == "done"
    with pytest.raises(muster.NoBinary):
        list(job.logs(follow=True))


def test_no_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    with pytest.raises(muster.NoDaemon, match="`muster.run` starts one"):
        muster.jobs()
    with pytest.raises(muster.NoDaemon, match="none.sock"):
        muster.connect(socket=tmp_path / "none.sock").jobs()
    with pytest.raises(muster.NoDaemon, match="none.sock"):
        muster.connect(socket=tmp_path / "none.sock").run("true")


def test_a_daemon_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "file"))
    with pytest.raises(muster.MusterError) as failed:
        muster.run("true")
    assert str(tmp_path / "file") in str(failed.value)
    assert failed.value.hints


def test_a_directory_that_others_can_write_to_is_not_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    os.chmod(tmp_path / "run", 0o777)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    with pytest.raises(muster.Refused, match="cannot be trusted"):
        muster.jobs()


def test_a_client_is_for_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(muster.UsageError, match="may be several"):
        muster.connect("slurm,kubernetes")
    with pytest.raises(muster.UsageError, match="has none"):
        muster.connect("slurm", socket="/s")
    monkeypatch.setenv("MUSTER_ON", "auto")
    with pytest.raises(muster.UsageError, match="may be several"):
        muster.run("true")
    assert muster.run("true", on="local").wait() == 0
    monkeypatch.setenv("MUSTER_HOME", "relative")
    with pytest.raises(muster.UsageError, match="absolute"):
        muster.connect("local").jobs()


def test_virtual_gpus_of_a_running_daemon_cannot_change() -> None:
    with pytest.raises(muster.UsageError, match="a daemon is running with"):
        muster.connect(virtual_gpus=64).run("true")


def test_errors_survive_pickling() -> None:
    error = errors.JobFailed("3", "failed", 7, "rank 0 exited with 7", ["look"])
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.exit_code) == (muster.JobFailed, str(error), 7)


def test_errors_of_commands_that_print_text() -> None:
    text = "note: something\nerror: job 5 has not started\n  more\nhint: follow it\nhint: or not\n"
    error = errors.from_stderr(4, text)
    assert isinstance(error, muster.NotFound)
    assert (error.message, error.hints) == ("job 5 has not started\n  more", ["follow it", "or not"])
    assert errors.from_stderr(101, "").message == "muster ended with exit code 101 and no message"


def test_responses_of_a_broken_daemon() -> None:
    with pytest.raises(ConnectionResetError):
        decoded(b"")
    with pytest.raises(ConnectionResetError):
        decoded(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}")
    with pytest.raises(muster.MusterError, match="not HTTP"):
        decoded(b"SSH-2.0\r\n\r\n")
    with pytest.raises(muster.MusterError, match="status 500"):
        decoded(b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\nno")


def test_job_files_are_one_field_a_line() -> None:
    text = jobfile.write({"run": "a", "time": 1}, {"gpus_per_task": 2, "time": None, "array": [1, 3]})
    assert text == 'run: "a"\ntime: 1\ngpus-per-task: 2\narray: "1,3"\n'
    assert jobfile.write("x", {"array": range(9, 0, -4)}) == 'run: "x"\narray: "1-9:4"\n'


def test_fields_of_a_dict_are_converted_as_the_others() -> None:
    text = jobfile.write({"run": "x", "array": range(3), "after": 12, "gpus": Fraction(1, 2), "queue": None}, {})
    assert text == 'run: "x"\narray: "0-2"\nafter: "12"\ngpus: 0.5\nqueue: null\n'
