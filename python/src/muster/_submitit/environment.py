"""Environment of a job of submitit, as it finds itself inside of Muster; and its checkpoints."""

from __future__ import annotations

import os
import signal
from typing import Optional

from submitit.core import job_environment, logger
from submitit.core.utils import DelayedSubmission, JobPaths

from muster import blocking
from muster.client import Client, Job
from muster.target import Target

#: Variables that the executor sets in its jobs.
NODES = "SUBMITIT_MUSTER_NODES"
SIGNAL_DELAY = "SUBMITIT_MUSTER_SIGNAL_DELAY_S"

#: Largest delay of a timer of the daemon, in seconds.
_LATE_SECS = 0.1


class MusterJobEnvironment(job_environment.JobEnvironment):
    """Rank, size and id of the running job, from the variables of docs/jobs.md."""

    _env = {
        "job_id": "MUSTER_JOB_ID",
        "num_tasks": "WORLD_SIZE",
        "num_nodes": NODES,
        "node": "NODE_RANK",
        "global_rank": "RANK",
        "local_rank": "LOCAL_RANK",
        "array_task_id": "MUSTER_ARRAY_INDEX",
    }

    @property
    def array_job_id(self) -> Optional[str]:
        """Number of the array; `None` outside of arrays."""
        return self.raw_job_id if self.array_task_id is not None else None

    def _handle_signals(self, paths: JobPaths, submission: DelayedSubmission) -> None:
        # Muster sends the signal before it stops the job; SIGTERM then means the end, and is not caught.
        handler = MusterSignalHandler(self, paths, submission)
        signal.signal(self._usr_sig(), handler.checkpoint_and_try_requeue)

    def _requeue(self, countdown: int) -> None:
        acknowledge(f"submitit, {countdown} time-outs left")
        # It may be stopped already, in order to be requeued; then nothing changes.
        own_job(self).requeue()
        logger.get_logger().info(f"Requeued job {self.job_id} ({countdown} remaining timeouts)")


class MusterSignalHandler(job_environment.SignalHandler):
    """Saves and requeues at the checkpoint signal."""

    def has_timed_out(self) -> bool:
        """Returns whether the signal came because of the time limit: then no more is left than the delay.

        submitit itself takes every preemption of a job of less than 10 minutes for a time-out.
        """
        left = time_left(self.env)
        timed_out = left is not None and left <= float(os.environ[SIGNAL_DELAY]) + _LATE_SECS
        self._logger.info(f"Job has {'' if timed_out else 'not '}timed out: {left} seconds are left.")
        return timed_out


def own_job(env: job_environment.JobEnvironment) -> Job:
    """Returns the running job, or element of an array, in the client."""
    index = env.array_task_id
    target = Target(int(env.raw_job_id), None if index is None else int(index))
    return Job(Client(), target, str(target))


def time_left(env: job_environment.JobEnvironment) -> Optional[float]:
    """Returns the seconds until the time limit of the running job; `None` without one."""
    job = own_job(env)
    detail = blocking.run(job.client.place.job(job.target))
    row, index = detail["job"], job.index or 0
    started = [one["started"] for one in row["elements"] if one["element"]["index"] == index]
    if row["time_limit"] is None or not started or started[0] is None:
        return None
    return (started[0] + row["time_limit"] - detail["now"]) / 1000


def acknowledge(label: str) -> None:
    """Tells Muster that the progress is saved."""
    pipe = os.environ.get("MUSTER_CHECKPOINT_FILE")
    if pipe is None:
        return
    try:
        with open(pipe, "w", encoding="utf-8") as writer:
            writer.write(f"{label}\n")
    except OSError as error:
        logger.get_logger().warning(f"The checkpoint was not acknowledged: {error}")
