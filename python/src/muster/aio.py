"""Clients and jobs for event loops: the same names as in `muster`, to be awaited.

    job = await muster.aio.run("python train.py", gpus=2)
    code = await job.wait()

A cancelled `await` closes its connection or ends its process; the job goes on.
"""

from __future__ import annotations

import datetime
import os
from typing import (
    Any,
    AsyncIterator,
    Awaitable,
    Dict,
    Iterable,
    List,
    Literal,
    Optional,
    Sequence,
    SupportsIndex,
    Union,
    overload,
)

from muster import concurrent, operations
from muster.connection import Connection
from muster.errors import warn
from muster.explanation import Explanation
from muster.handle import Handle, targets_in
from muster.jobfile import Work
from muster.target import Target
from muster.views import JobView, SubmitResponse

__all__ = ["Client", "Job", "connect", "job", "jobs", "run", "run_file", "wait"]


class Client(Connection):
    """Client of one cluster; see `muster.aio.connect`."""

    async def run(
        self,
        work: Work,
        *,
        name: Optional[str] = None,
        gpus: Union[int, float, None] = None,
        nodes: Optional[int] = None,
        time: Union[str, datetime.timedelta, None] = None,
        env: Optional[Dict[str, str]] = None,
        workdir: Union[str, "os.PathLike[str]", None] = None,
        array: Union[str, int, range, Sequence[int], None] = None,
        **fields: Any,
    ) -> "Job":
        """Submits a job and returns it; see `muster.Client.run`."""
        known = {"name": name, "gpus": gpus, "nodes": nodes, "time": time}
        given = {**known, "env": env, "workdir": workdir, "array": array, **fields}
        operation = operations.run(self.place, self.virtual_gpus, work, given)
        return self._submitted(await concurrent.run(operation))[0]

    async def run_file(self, path: Union[str, "os.PathLike[str]"]) -> List["Job"]:
        """Submits every job of a job file, or an sbatch script."""
        operation = operations.run_file(self.place, self.virtual_gpus, path)
        return self._submitted(await concurrent.run(operation))

    async def job(self, job: Union[int, str]) -> "Job":
        """Returns a job by its number (`3`), number and index (`3[7]`), or name; raises `NotFound`."""
        target, view = await concurrent.run(operations.find(self.place, job))
        return Job(self, target, view["name"])

    async def jobs(
        self,
        *,
        all: bool = False,
        user: Optional[str] = None,
        queue: Optional[str] = None,
        state: Optional[str] = None,
        name: Optional[str] = None,
    ) -> List["Job"]:
        """Lists jobs that have not ended, or `all`; `name` may have `*` and `?`."""
        wanted = {"all": all, "user": user, "queue": queue, "state": state, "name": name}
        rows = await concurrent.run(self.place.jobs(wanted))
        return [Job(self, Target(row["job"]), row["name"]) for row in rows]

    async def wait(
        self, jobs: Iterable["Job"], timeout: Optional[float] = None, *, check: bool = False
    ) -> List[int]:
        """Waits until all jobs have ended; see `muster.Job.wait`. Returns their exit codes.

        Raises `UsageError` for a job of another cluster.
        """
        targets = targets_in(self.place, jobs)
        return await concurrent.run(operations.wait(self.place, targets, timeout, check))

    def _submitted(self, response: SubmitResponse) -> List["Job"]:
        jobs = [Job(self, Target(one["job"]), one["name"]) for one in response["jobs"]]
        warn(response["warnings"], jobs)
        return jobs


class Job(Handle[Client]):
    """Job, or one element of an array (`job[3]`)."""

    async def state(self) -> str:
        """Returns the present state; see `muster.Job.state`."""
        return (await self.refresh())["state"]

    async def refresh(self) -> JobView:
        """Returns the present row of the job, as in docs/openapi.json."""
        return await concurrent.run(self.client.place.view(self.target))

    async def wait(self, timeout: Optional[float] = None, *, check: bool = False) -> int:
        """Waits until the job has ended and returns its exit code; see `muster.Job.wait`."""
        return (await self.client.wait([self], timeout, check=check))[0]

    @overload
    def logs(
        self,
        follow: Literal[False] = False,
        *,
        rank: Union[int, str] = 0,
        attempt: Optional[int] = None,
        tail: Optional[int] = None,
    ) -> Awaitable[str]: ...

    @overload
    def logs(
        self,
        follow: Literal[True],
        *,
        rank: Union[int, str] = 0,
        attempt: Optional[int] = None,
        tail: Optional[int] = None,
    ) -> AsyncIterator[str]: ...

    def logs(
        self,
        follow: bool = False,
        *,
        rank: Union[int, str] = 0,
        attempt: Optional[int] = None,
        tail: Optional[int] = None,
    ) -> Union[Awaitable[str], AsyncIterator[str]]:
        """Returns what a task has written, to be awaited; with `follow`, lines for `async for`.

        See `muster.Job.logs`.
        """
        place = self.client.place
        if follow:
            return concurrent.lines(place.following(self.target, rank, attempt, tail))
        return concurrent.run(place.logs(self.target, rank, attempt, tail))

    async def explain(self) -> Explanation:
        """Explains why the job is pending, when it starts, and what would start it now.

        Raises `NotFound` for a job or element that does not exist.
        """
        return await concurrent.run(operations.explain(self.client.place, self.target))

    async def cancel(self) -> None:
        """Cancels the job in any state, and returns before it has ended; see `wait`."""
        await self._act("cancel")

    async def hold(self) -> None:
        """Keeps the job from starting; a running job continues. Raises `Refused` for a job that has ended."""
        await self._act("hold")

    async def release(self) -> None:
        """Undoes a hold. Raises `Refused` for a job that has ended."""
        await self._act("release")

    async def requeue(self) -> None:
        """Requeues the job: it starts again from the beginning.

        Raises `Refused` for a job that has ended.
        """
        await self._act("requeue")

    async def checkpoint(self) -> None:
        """Asks the job to save its progress.

        Raises `Refused` for a job without the field `checkpoint`, and for one that is not running.
        """
        await concurrent.run(self.client.place.checkpoint(self.target))

    async def _act(self, action: str) -> None:
        await concurrent.run(self.client.place.act(action, self.target))

    def __getitem__(self, index: SupportsIndex) -> "Job":
        """Returns one element of an array, by its index there; raises `UsageError` for a negative one."""
        return Job(self.client, self._element(index), self.name)


def connect(
    on: Optional[str] = None,
    *,
    socket: Union[str, "os.PathLike[str]", None] = None,
    binary: Union[str, "os.PathLike[str]"] = "muster",
    virtual_gpus: Union[int, str, None] = None,
) -> Client:
    """Returns a client of one cluster; see `muster.connect`. Nothing is asked yet."""
    return Client(on, socket=socket, binary=binary, virtual_gpus=virtual_gpus)


async def run(
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
    """Submits a job; see `muster.run`."""
    return await connect(on).run(
        work, name=name, gpus=gpus, nodes=nodes, time=time, env=env, workdir=workdir, array=array, **fields
    )


async def run_file(path: Union[str, "os.PathLike[str]"], *, on: Optional[str] = None) -> List[Job]:
    """Submits every job of a file; see `muster.run_file`."""
    return await connect(on).run_file(path)


async def job(job: Union[int, str], *, on: Optional[str] = None) -> Job:
    """Returns a job by number or name; see `muster.job`."""
    return await connect(on).job(job)


async def jobs(
    *,
    on: Optional[str] = None,
    all: bool = False,
    user: Optional[str] = None,
    queue: Optional[str] = None,
    state: Optional[str] = None,
    name: Optional[str] = None,
) -> List[Job]:
    """Lists jobs; see `muster.jobs`."""
    return await connect(on).jobs(all=all, user=user, queue=queue, state=state, name=name)


async def wait(
    jobs: Iterable[Job], timeout: Optional[float] = None, *, check: bool = False
) -> List[int]:
    """Waits until all jobs have ended; see `muster.wait`."""
    found = list(jobs)
    return await found[0].client.wait(found, timeout, check=check) if found else []
