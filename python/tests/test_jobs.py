"""Submitting, waiting, output and actions."""

from __future__ import annotations

import asyncio
import datetime
import json
import numbers
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any, Dict

import pytest
from conftest import GPUS, until

import muster


def test_a_command_for_the_shell_runs_and_its_output_is_read() -> None:
    job = muster.run("echo out; echo err >&2; echo $CUDA_VISIBLE_DEVICES", gpus=1, name="hello")
    assert job.name == "hello"
    assert job.wait() == 0
    assert job.state == "done"
    assert job.logs().split() == ["out", "err", "0"]
    assert job.logs(tail=1) == "0\n"


def test_a_list_is_a_program_and_its_arguments() -> None:
    words = ["two words", "$HOME", 'quote"\\', "ü 😀", "\x7f\x85\u2028", "line\nline", "#", "- a: b"]
    job = muster.run(["python3", "-c", "import sys; print(sys.argv[1:])", *words])
    assert job.wait() == 0
    assert job.logs() == f"{words}\n"


def test_a_dict_is_a_job_file_and_fields_override_it() -> None:
    job = muster.run({"run": "echo $A$B", "name": "spec", "env": {"A": "x"}}, name="other", env={"B": "y"})
    assert job.wait() == 0
    assert (job.name, job.logs()) == ("other", "y\n")


def test_the_job_has_environment_and_directory_of_this_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OF_THE_SUBMITTER", "there")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    assert muster.run("echo $OF_THE_SUBMITTER $MORE > file", workdir=Path("sub"), env={"MORE": "1"}).wait() == 0
    assert (tmp_path / "sub" / "file").read_text() == "there 1\n"


def test_output_files_are_found(tmp_path: Path) -> None:
    job = muster.run("echo in a file", output=tmp_path / "%j.out")
    assert job.wait() == 0
    assert (tmp_path / f"{job}.out").read_text() == job.logs() == "in a file\n"


def test_times_and_dates_are_written_as_muster_reads_them() -> None:
    later = datetime.datetime.now() + datetime.timedelta(hours=1)
    job = muster.run("true", time=datetime.timedelta(minutes=1.5), begin=later)
    view = job.view
    assert view["time_limit"] == 90_000
    assert view["waiting_for"] is not None
    assert abs(view["waiting_for"]["until"] - later.timestamp() * 1000) <= 1000
    job.cancel()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        (["/does/not/exist"], 125),
    ],
)
def test_exit_codes_are_those_of_the_command_line(command: str, code: int) -> None:
    job = muster.run(command)
    assert job.wait() == code
    assert subprocess.run(["muster", "wait", str(job)], check=False).returncode == code
    with pytest.raises(muster.JobFailed) as failed:
        job.wait(check=True)
    assert failed.value.exit_code == code
    assert "rank 0" in str(failed.value)


def test_the_time_limit_is_124() -> None:
    job = muster.run("sleep 600", time="100ms", grace="1s")
    assert job.wait() == 124
    with pytest.raises(muster.JobFailed, match="reached its time limit"):
        job.wait(check=True)


def test_a_failed_dependency_is_125_and_jobs_stand_for_their_numbers() -> None:
    first = muster.run("exit 1")
    second = muster.run("true", after=first)
    third = muster.run("true", after=[f"afterany:{first}"])
    assert muster.wait([first, second, third]) == [1, 125, 0]
    assert muster.run({"run": "true", "after": first, "array": range(2)}).wait() == 1
    with pytest.raises(muster.JobFailed, match=f"job {first} did not end as its dependency requires"):
        second.wait(check=True)


def test_waiting_for_a_cancelled_job(blocker: muster.Job) -> None:
    job = muster.run("true", gpus=1)
    with pytest.raises(muster.WaitTimeout) as late:
        job.wait(timeout=0.05)
    assert isinstance(late.value, TimeoutError)
    assert "the job goes on" in str(late.value)
    job.cancel()
    assert (job.wait(), job.state) == (130, "cancelled")
    with pytest.raises(muster.JobCancelled, match="cancelled by"):
        job.wait(check=True)
    job.cancel()  # again, which changes nothing


def test_a_timeout_of_0_looks_once(blocker: muster.Job, tmp_path: Path) -> None:
    job = muster.run("exit 3", array=2)
    with pytest.raises(muster.WaitTimeout):
        muster.wait([job, blocker], timeout=0)
    job.wait()
    assert (job.wait(timeout=0), job[1].wait(timeout=0)) == (1, 3)
    # Elsewhere the program is asked.
    program = tmp_path / "muster"
    program.write_text('#!/bin/sh\ncat "$0.$1"\n')
    program.chmod(0o700)
    there = muster.Job(muster.connect("slurm", binary=program), job.target, "there")
    for state, code in (("done", 0), ("pending", None)):
        row: Dict[str, Any] = {"state": state, "array": None, "elements": []}
        Path(f"{program}.show").write_text(json.dumps({"job": row}))
        if code is None:
            with pytest.raises(muster.WaitTimeout):
                there.wait(timeout=0)
        else:
            assert there.wait(timeout=0) == code


def test_jobs_of_two_clusters_are_not_waited_for_together() -> None:
    job = muster.run("true")
    other = muster.Job(muster.connect("slurm"), job.target, "other")
    for jobs in ([job, other], [other, job]):
        with pytest.raises(muster.UsageError, match="all jobs must be of one cluster"):
            muster.wait(jobs)


def test_arrays_have_elements() -> None:
    job = muster.run("echo $MUSTER_ARRAY_INDEX; test $MUSTER_ARRAY_INDEX != 3", array=range(1, 6, 2))
    element = job[3]
    assert (element.id, element.index, str(element)) == (job.id, 3, f"{job}[3]")
    assert element.wait() == 1
    assert job.wait() == 1
    assert [job[index].wait() for index in (1, 5)] == [0, 0]
    assert job[5].logs() == "5\n"
    assert (element.state, job[1].state) == ("failed", "done")
    assert element.view["elements"][0]["element"]["index"] == 3
    assert muster.job(f"{job}[3]") == muster.job(f"{job}_3") == element
    with pytest.raises(muster.NotFound):
        job[2].wait()
    with pytest.raises(TypeError, match="not iterable"):
        list(job)  # type: ignore[call-overload]


class Number:
    """Integer of another library, such as numpy."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    __int__ = __index__


numbers.Integral.register(Number)


def test_indices_of_elements() -> None:
    job = muster.run("exit $MUSTER_ARRAY_INDEX", array=[0, 2], restart={"max": Number(1)})
    element = job[Number(2)]
    assert (element.index, type(element.index), element.wait()) == (2, int, 2)
    with pytest.raises(muster.UsageError, match="cannot be negative"):
        job[-1]
    with pytest.raises(muster.UsageError, match="is an element of an array"):
        element[0]
    with pytest.raises(TypeError):
        job["0"]  # type: ignore[index]


def test_elements_can_be_cancelled_alone(blocker: muster.Job) -> None:
    job = muster.run("true", array=[0, 1], gpus=1)
    job[0].cancel()
    assert job[0].wait() == 130
    assert job[1].state == "pending"
    job.cancel()


def test_output_of_several_ranks() -> None:
    job = muster.run("echo of $RANK", tasks=2, gpus_per_task=1)
    assert job.wait() == 0
    assert job.logs(rank=1) == "of 1\n"
    assert job.logs(rank="all") == "0: of 0\n1: of 1\n"


def test_following_yields_lines_while_the_job_runs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = muster.run(f"echo one; until test -e {go}; do sleep 0.02; done; printf two")
    lines = job.logs(follow=True)
    assert next(lines) == "one\n"
    # The line can be read before the daemon has recorded the start.
    until(lambda: job.state == "running", "it runs")
    go.touch()
    assert list(lines) == ["two"]


def test_pending_jobs_have_no_output_and_an_explanation(blocker: muster.Job) -> None:
    job = muster.run("true", gpus=2, name="waits")
    with pytest.raises(muster.MusterError, match="has not started") as early:
        job.logs()
    assert "explain" in early.value.hints[0]
    answer = job.explain()
    assert (answer.state, answer.starts, answer.is_reserved) == ("pending", None, False)
    assert answer.reasons[0]["reason"] == "capacity"
    assert answer.view["holders"][0]["element"]["job"] == blocker.id
    assert str(answer).startswith("waits is pending: capacity")
    said = subprocess.run(["muster", "explain", str(job)], check=True, capture_output=True, text=True)
    assert said.stdout.rstrip("\n") == str(answer)
    job.cancel()


def test_a_planned_start_is_a_date() -> None:
    holder = muster.run("sleep 600", gpus=GPUS, time="10m")
    until(lambda: holder.state == "running", "it runs")
    job = muster.run("true", gpus=GPUS, time="1m")
    answer = job.explain()
    assert answer.starts is not None and answer.is_reserved
    left = answer.starts - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(minutes=8) < left < datetime.timedelta(minutes=11)
    for one in (job, holder):
        one.cancel()
        one.wait()


def test_hold_release_and_requeue(tmp_path: Path) -> None:
    job = muster.run(f"echo x >> {tmp_path}/runs; test $MUSTER_ATTEMPT = 2 || sleep 600", hold=True)
    assert job.state == "held"
    job.release()
    until((tmp_path / "runs").exists, "it runs")
    job.requeue()
    assert job.wait() == 0
    assert (tmp_path / "runs").read_text() == "x\nx\n"


def test_checkpoints_are_requested(tmp_path: Path) -> None:
    trap = "trap 'echo saved > $MUSTER_CHECKPOINT_FILE; exit 0' USR1"
    script = f"{trap}; touch {tmp_path}/ready; while :; do sleep 0.02; done"
    job = muster.run(script, checkpoint={"signal": "USR1", "grace": "30s"})
    until((tmp_path / "ready").exists, "the handler is there")
    job.checkpoint()
    assert job.wait() == 0
    plain = muster.run(["sleep", "600"])
    until(lambda: plain.state == "running", "it runs")
    with pytest.raises(muster.Refused, match="checkpoint"):
        plain.checkpoint()
    plain.cancel()


def test_lists_of_jobs(blocker: muster.Job) -> None:
    assert blocker in muster.jobs()
    assert blocker in muster.jobs(name="block*", state="running")
    assert blocker not in muster.jobs(state="pending")
    ended = muster.run("true", name="ended")
    ended.wait()
    assert ended not in muster.jobs()
    assert ended in muster.jobs(all=True, name="ended")
    assert muster.job("blocker") == blocker == muster.job(blocker.id)
    assert {blocker, muster.job(str(blocker))} == {blocker}


def test_job_files_and_scripts(tmp_path: Path) -> None:
    (tmp_path / "-two.yaml").write_text("name: one\nrun: echo 1\n---\nname: two\nrun: echo 2\n")
    jobs = muster.run_file(tmp_path / "-two.yaml")
    assert [job.name for job in jobs] == ["one", "two"]
    assert muster.wait(jobs) == [0, 0]
    (tmp_path / "a.sbatch").write_text("#!/bin/sh\n#SBATCH --job-name=old\necho from a script\n")
    (script,) = muster.run_file(tmp_path / "a.sbatch")
    assert script.wait() == 0
    assert (script.name, script.logs()) == ("old", "from a script\n")
    with pytest.raises(muster.MusterError, match="none.yaml"):
        muster.run_file(tmp_path / "none.yaml")


def test_jobs_survive_pickling() -> None:
    job = muster.run("exit 5")
    copy = pickle.loads(pickle.dumps(job))
    assert (copy, copy.wait()) == (job, 5)


def test_jobs_can_be_used_after_a_fork() -> None:
    job = muster.run("exit 6")
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = job.wait()
        finally:
            os._exit(code)  # Otherwise the child would go on with the tests.
    _, status = os.waitpid(child, 0)
    assert os.WEXITSTATUS(status) == 6 == job.wait()


def test_warnings_of_muster_are_python_warnings() -> None:
    with pytest.warns(muster.MusterWarning, match="`env` sets `RANK`") as caught:
        job = muster.run("true", env={"RANK": "7"})
    assert caught[0].filename == __file__
    job.wait()
    with pytest.warns(muster.MusterWarning) as caught:
        muster.connect().run("true", env={"RANK": "7"}).wait()
    assert caught[0].filename == __file__

    async def work() -> None:
        await muster.aio.run("true", env={"RANK": "7"})

    with pytest.warns(muster.MusterWarning) as caught:
        asyncio.run(work())
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_a_warning_that_is_an_error_has_the_job() -> None:
    with pytest.raises(muster.MusterWarning) as raised:
        muster.run("exit 4", env={"RANK": "7"})
    assert [job.wait() for job in raised.value.jobs] == [4]


def test_many_jobs_are_waited_for_at_once() -> None:
    jobs = [muster.run(f"exit {code}") for code in range(5)]
    assert muster.wait(jobs + jobs[:1]) == [0, 1, 2, 3, 4, 0]
    assert muster.wait([]) == []
    with pytest.raises(muster.JobFailed) as failed:
        muster.wait(jobs, check=True)
    assert failed.value.exit_code == 1
