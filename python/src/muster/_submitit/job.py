"""Jobs of submitit: their ids, states and waiting."""

from __future__ import annotations

import time
from typing import Dict

from submitit.core import core

from muster import blocking
from muster.client import Client
from muster.client import Job as ClientJob
from muster.errors import MusterError, NotFound
from muster.states import first_failure, is_final
from muster.target import Target, parse
from muster.views import JobView

# Slurm's words, which programs compare with.
_STATES = {
    "held": "PENDING",
    "pending": "PENDING",
    "starting": "PENDING",
    "running": "RUNNING",
    "stopping": "COMPLETING",
    "suspended": "PENDING",
    "done": "COMPLETED",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "preempted": "PREEMPTED",
    "unknown": "UNKNOWN",
}

_FAILURES = {"timed_out": "TIMEOUT", "out_of_memory": "OUT_OF_MEMORY", "lost": "NODE_FAIL"}


def target_of(job_id: str) -> Target:
    """Returns the job of an id of submitit: `12`, or `12_3` in an array."""
    target = parse(job_id)
    if target is None:
        raise ValueError(f"`{job_id}` is not the id of a job of Muster")
    return target


def info_of(row: JobView) -> Dict[str, str]:
    """Returns state and nodes, under the names that Slurm's accounting has."""
    failure = first_failure(row)
    state = _FAILURES.get(failure["kind"]) if failure and row["state"] == "failed" else None
    nodes = sorted({task["node"] for element in row["elements"] for task in element["tasks"]})
    return {"State": state or _STATES[row["state"]], "NodeList": ",".join(nodes)}


class MusterWatcher(core.InfoWatcher):
    """Asks the daemon for the states of all jobs that have not ended."""

    def __init__(self) -> None:
        # A request takes about a millisecond, unlike one to Slurm's accounting.
        super().__init__(delay_s=1)

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """Returns the state of a job in Slurm's words."""
        return self.get_info(job_id, mode=mode).get("State") or "UNKNOWN"

    def update(self) -> None:
        """Asks for all jobs that have not ended."""
        self._num_calls += 1
        client = Client()
        for job_id in sorted(self._registered - self._finished):
            try:
                row = blocking.run(client.place.view(target_of(job_id)))
            except NotFound:
                continue
            self._info_dict[job_id] = info_of(row)
            if is_final(row["state"]):
                self._finished.add(job_id)
        self._last_status_check = time.time()


class MusterJob(core.Job[core.R]):
    """Job of the daemon of this machine, or an element of an array."""

    watcher = MusterWatcher()

    # Results are on a disk of this machine: a job that has ended without one writes none later.
    _results_timeout_s = 1

    @property
    def muster(self) -> ClientJob:
        """The same job in the client, for `explain()`, `logs()` and the rest."""
        target = target_of(self.job_id)
        return ClientJob(Client(), target, str(target))

    def wait(self) -> None:
        """Waits until the job has ended; asks nothing while nothing changes."""
        self.muster.wait()
        self.watcher.update()

    def cancel(self, check: bool = True) -> None:
        """Cancels the job, or the element of an array."""
        try:
            self.muster.cancel()
        except MusterError:
            if check:
                raise

    def _interrupt(self, timeout: bool = False) -> None:
        """Asks for a checkpoint, as before a preemption (for tests of programs)."""
        self.muster.checkpoint()
