"""submitit: code written for Slurm runs as jobs of Muster."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

import pytest
import submitit
from conftest import GPUS, until
from submitit.core.utils import FailedJobError, UncompletedJobError
from submitit.helpers import Checkpointable, DelayedSubmission

import muster
from muster.submitit import MusterExecutor, MusterJob


def add(a: int, b: int) -> int:
    print("adding")
    return a + b


def fail() -> None:
    raise ValueError("no such number")


def where() -> Dict[str, Any]:
    env = submitit.JobEnvironment()
    names = ["job_id", "num_tasks", "num_nodes", "node", "global_rank", "local_rank", "array_job_id"]
    return {name: getattr(env, name) for name in names} | {"gpus": os.environ["CUDA_VISIBLE_DEVICES"]}


class Counter(Checkpointable):
    """Counts to a number, and remembers where it was; `step` is told in a file."""

    def __init__(self, file: str) -> None:
        self.step = 0
        self.file = file
        self.starts: List[str] = []

    def __call__(self, last: int) -> Tuple[int, List[str]]:
        self.starts.append(os.environ["MUSTER_ATTEMPT"])
        while self.step < last and not os.path.exists(f"{self.file}-stop"):
            self.step += 1
            Path(self.file).write_text(str(self.step))
            time.sleep(0.02)
        return self.step, self.starts


class Forgetful(Counter):
    """Does not want to run again."""

    def checkpoint(self, *args: Any, **kwargs: Any) -> DelayedSubmission:
        return None  # type: ignore[return-value]


@pytest.fixture
def executor(tmp_path: Path) -> submitit.AutoExecutor:
    made = submitit.AutoExecutor(folder=tmp_path / "%j", cluster="muster")
    made.update_parameters(timeout_min=5, gpus_per_node=1, name="fit", cpus_per_task=1)
    return made


def job_of(job: "submitit.Job[Any]") -> muster.Job:
    assert isinstance(job, MusterJob)
    return job.muster


def test_a_function_runs_and_returns(executor: submitit.AutoExecutor) -> None:
    executor.update_parameters(muster_queue="default", muster_env={"A": "b"}, mem_gb=1)
    job = executor.submit(add, 1, b=2)
    assert job.result() == 3
    assert (job.state, job.done(), job.exception()) == ("COMPLETED", True, None)
    assert "adding" in (job.stdout() or "")
    view = job_of(job).view
    assert (view["name"], view["gpus"], view["time_limit"]) == ("fit", 1000, 300_000)
    text = job.paths.submission_file.read_text()
    assert "A: " in text or '"A": "b"' in text
    assert 'memory: "1024MiB"' in text


def test_an_exception_comes_back(executor: submitit.AutoExecutor) -> None:
    job = executor.submit(fail)
    with pytest.raises(FailedJobError, match="no such number"):
        job.result()
    assert job.state == "FAILED"
    assert "ValueError" in (job.stderr() or "")


def test_programs_that_name_no_cluster_use_muster_unless_there_is_slurm(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))
    assert submitit.AutoExecutor(tmp_path).cluster == "muster"
    (tmp_path / "srun").touch(mode=0o700)
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{tmp_path}")
    assert submitit.AutoExecutor.which() == "slurm"
    monkeypatch.setenv("PATH", "/var/empty")
    assert submitit.AutoExecutor.which() == "local"


def test_jobs_of_the_client_are_dependencies(executor: submitit.AutoExecutor) -> None:
    first = muster.run("exit 1")
    executor.update_parameters(muster_after=first)
    job = executor.submit(add, 1, 2)
    assert job_of(job).wait() == 125


def test_a_map_is_one_array(executor: submitit.AutoExecutor) -> None:
    executor.update_parameters(muster_array_parallelism=2)
    jobs = executor.map_array(add, range(4), range(4))
    number = jobs[0].job_id.split("_")[0]
    assert [job.job_id for job in jobs] == [f"{number}_{index}" for index in range(4)]
    assert [job.result() for job in jobs] == [0, 2, 4, 6]
    array = muster.job(number).view["array"]
    assert array is not None
    assert (array["total"], array["succeeded"], array.get("max_running")) == (4, 4, 2)
    assert {job.state for job in jobs} == {"COMPLETED"}


def test_batches_are_one_array(executor: submitit.AutoExecutor) -> None:
    with executor.batch():
        jobs = [executor.submit(where) for _ in range(2)]
    found = [job.result() for job in jobs]
    assert [one["job_id"] for one in found] == [job.job_id for job in jobs]
    assert {one["array_job_id"] for one in found} == {jobs[0].job_id.split("_")[0]}


def test_every_task_has_its_rank_and_gpus(executor: submitit.AutoExecutor) -> None:
    executor.update_parameters(nodes=1, tasks_per_node=2, gpus_per_node=GPUS)
    job = executor.submit(where)
    found = job.results()
    assert [one["gpus"] for one in found] == ["0,1", "2,3"]
    for rank, one in enumerate(found):
        expected = {"job_id": job.job_id, "num_tasks": 2, "num_nodes": 1, "node": 0, "array_job_id": None}
        assert expected.items() <= one.items()
        assert (one["global_rank"], one["local_rank"]) == (rank, rank)


def test_cancelled_jobs(executor: submitit.AutoExecutor, blocker: muster.Job) -> None:
    job = executor.submit(add, 1, 2)
    assert (job.state, job.done()) == ("PENDING", False)
    assert "capacity" in str(job_of(job).explain())
    job.cancel()
    with pytest.raises(UncompletedJobError, match="CANCELLED"):
        job.result()


def test_a_running_job_ends_at_once_when_cancelled(
    executor: submitit.AutoExecutor, tmp_path: Path
) -> None:
    counter = Counter(str(tmp_path / "step"))
    job = executor.submit(counter, 10**6)
    until((tmp_path / "step").exists, "it counts")
    job.cancel()
    job.wait()
    assert job.state == "CANCELLED"
    view = job_of(job).view
    assert view["ended"] is not None and view["started"] is not None
    assert view["ended"] - view["started"] < 20_000  # not after a grace time of 30 s


def test_a_checkpoint_requeues_with_the_state(executor: submitit.AutoExecutor, tmp_path: Path) -> None:
    file = tmp_path / "step"
    job = executor.submit(Counter(str(file)), 10**6)
    until(file.exists, "it counts")
    job._interrupt()  # type: ignore[attr-defined]
    until(lambda: job_of(job).view["elements"][0]["attempt"] == 2, "it starts again")
    before = int(file.read_text())
    until(lambda: int(file.read_text() or 0) > before, "it counts again")
    Path(f"{file}-stop").touch()
    step, starts = job.result()
    assert starts == ["1", "2"]
    assert step > before
    checkpoint = job_of(job).view["elements"][0].get("checkpoint")
    assert isinstance(checkpoint, dict) and checkpoint["label"] == "submitit, 3 time-outs left"


def test_a_preempted_job_goes_on(executor: submitit.AutoExecutor, tmp_path: Path) -> None:
    file = tmp_path / "step"
    executor.update_parameters(gpus_per_node=GPUS)
    job = executor.submit(Counter(str(file)), 10**6)
    until(file.exists, "it counts")
    urgent = muster.run("true", gpus=GPUS, priority=10)
    assert urgent.wait() == 0
    until(lambda: job_of(job).view["elements"][0]["attempt"] == 2, "it starts again")
    Path(f"{file}-stop").touch()
    step, starts = job.result()
    assert starts == ["1", "2"]
    assert step > 0
    assert "this job is preempted" in (job.stdout() or "") + (job.stderr() or "")


def test_time_outs_are_counted(tmp_path: Path) -> None:
    executor = MusterExecutor(tmp_path, max_num_timeout=1)
    executor.update_parameters(timeout_min=0.05, signal_delay_s=1)
    job = executor.submit(Counter(str(tmp_path / "step")), 10**6)
    with pytest.raises(FailedJobError, match="timed-out too many times"):
        job.result()
    job.wait()
    assert job.state == "FAILED"
    assert job_of(job).view["elements"][0]["attempt"] == 2


def test_a_job_that_does_not_want_to_go_on_fails_at_its_limit(tmp_path: Path) -> None:
    executor = MusterExecutor(tmp_path)
    executor.update_parameters(timeout_min=0.05, signal_delay_s=1)
    job = executor.submit(Forgetful(str(tmp_path / "step")), 10**6)
    with pytest.raises(FailedJobError, match="checkpoint function returned None"):
        job.result()


def test_mistakes_are_told(executor: submitit.AutoExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NameError, match="Unknown argument 'quue'"):
        executor.update_parameters(muster_quue="x")
    with pytest.raises(ValueError, match="Unavailable parameter"):
        MusterExecutor("x").update_parameters(quue="x")
    executor.update_parameters(muster_queue="no-such-queue")
    with pytest.raises(muster.MusterError, match="no-such-queue"):
        executor.submit(add, 1, 2)
    monkeypatch.setenv("MUSTER_ON", "slurm")
    with pytest.raises(muster.UsageError, match="cluster='slurm'"):
        submitit.AutoExecutor("x", cluster="muster")


def test_setup_runs_before_the_function(executor: submitit.AutoExecutor) -> None:
    executor.update_parameters(muster_setup=["export OF_SETUP='a b'"], muster_stderr_to_stdout=True)
    job = executor.submit(os.getenv, "OF_SETUP")
    assert job.result() == "a b"
    assert not job.paths.stderr.exists()
