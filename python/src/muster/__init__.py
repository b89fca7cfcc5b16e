"""Client of Muster, which schedules GPU jobs on one machine and on Slurm.

    import muster

    job = muster.run("python train.py", gpus=2, time="12h")
    print(job.explain())
    job.wait(check=True)

`muster.aio` has the same for event loops, `muster.submitit` an executor for submitit.
"""

from __future__ import annotations

import datetime
import os
from typing import Any, Dict, Iterable, List, Optional, Sequence, Union

from muster import aio
from muster.client import Client, Job
from muster.errors import (
    Busy,
    InvalidSpec,
    JobCancelled,
    JobFailed,
    MusterError,
    MusterWarning,
    NoBinary,
    NoDaemon,
    NotFound,
    Refused,
    Unavailable,
    UsageError,
    WaitTimeout,
)
from muster.explanation import Explanation
from muster.jobfile import Work

__all__ = [
    "Busy",
    "Client",
    "Explanation",
    "InvalidSpec",
    "Job",
    "JobCancelled",
    "JobFailed",
    "MusterError",
    "MusterWarning",
    "NoBinary",
    "NoDaemon",
    "NotFound",
    "Refused",
    "Unavailable",
    "UsageError",
    "WaitTimeout",
    "aio",
    "connect",
    "job",
    "jobs",
    "run",
    "run_file",
    "wait",
]


def connect(
    on: Optional[str] = None,
    *,
    socket: Union[str, "os.PathLike[str]", None] = None,
    binary: Union[str, "os.PathLike[str]"] = "muster",
    virtual_gpus: Union[int, str, None] = None,
) -> Client:
    """Returns a client of one cluster. Nothing is asked yet.

    `on` is `local` (the daemon of this machine), `slurm`, `slurm@HOST`, `kubernetes` or `kubernetes@CONTEXT`; by
    default that of `MUSTER_ON`, else `local`. `socket` is that of a daemon, by default that of `MUSTER_SOCKET`, else
    this user's own, else the shared one. `binary` is the program `muster`. `virtual_gpus` are simulated GPUs of
    the daemon, if it has to be started.
    """
    return Client(on, socket=socket, binary=binary, virtual_gpus=virtual_gpus)


def run(
    work: Work,
    *,
    on: Optional[str] = None,
    name: Optional[str] = None,
    gpus: Union[int, float, None] = None,
    nodes: Optional[int] = None,
    time: Union[str, datetime.timedelta, None] = None,
    env: Optional[Dict[str, str]] = None,
    workdir: Union[str, "os.PathLike[str]", None] = None,
    array: Union[str, int, range, Sequence[int], None] = None,
    **fields: Any,
) -> Job:
    """Submits a job and returns it at once; see `Client.run`.

    `on` is the cluster, as in `connect`.
    """
    return connect(on).run(
        work, name=name, gpus=gpus, nodes=nodes, time=time, env=env, workdir=workdir, array=array, **fields
    )


def run_file(path: Union[str, "os.PathLike[str]"], *, on: Optional[str] = None) -> List[Job]:
    """Submits every job of a job file, or an sbatch script; see `Client.run_file`."""
    return connect(on).run_file(path)


def job(job: Union[int, str], *, on: Optional[str] = None) -> Job:
    """Returns a job by its number (`3`), number and index (`3[7]`), or name; raises `NotFound`."""
    return connect(on).job(job)


def jobs(
    *,
    on: Optional[str] = None,
    all: bool = False,
    user: Optional[str] = None,
    queue: Optional[str] = None,
    state: Optional[str] = None,
    name: Optional[str] = None,
) -> List[Job]:
    """Lists jobs that have not ended, or `all`; `name` may have `*` and `?`."""
    return connect(on).jobs(all=all, user=user, queue=queue, state=state, name=name)


def wait(jobs: Iterable[Job], timeout: Optional[float] = None, *, check: bool = False) -> List[int]:
    """Waits until all jobs have ended and returns their exit codes; see `Job.wait`.

    Raises `UsageError` if they are not all of one cluster.
    """
    found = list(jobs)
    return found[0].client.wait(found, timeout, check=check) if found else []
