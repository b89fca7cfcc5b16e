"""Clients and jobs for ordinary code: every method returns when it is done. `muster.aio` has the same for
event loops."""

from __future__ import annotations

import datetime
import os
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Optional,
    Sequence,
    SupportsIndex,
    Union,
    overload,
)

from muster import blocking, operations
from muster.connection import Connection
from muster.errors import warn
from muster.explanation import Explanation
from muster.handle import Handle, targets_in
from muster.jobfile import Work
from muster.target import Target
from muster.views import JobView, SubmitResponse


class Client(Connection):
    """Client of one cluster; see `muster.connect`."""

    def run(
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
        """Submits a job and returns it at once. Starts a daemon for this user if none is running.

        `work` is text for the shell, a list of a program and its arguments, or a dict with the fields of a job
        file. `fields` are further fields of docs/jobs.md, with `_` for `-`: `gpus_per_task=1`. The job gets the
        environment and the working directory of this process.

        Raises `InvalidSpec` for an unknown field or a wrong value, with the hint of Muster.
        """
        known = {"name": name, "gpus": gpus, "nodes": nodes, "time": time}
        given = {**known, "env": env, "workdir": workdir, "array": array, **fields}
        operation = operations.run(self.place, self.virtual_gpus, work, given)
        return self._submitted(blocking.run(operation))[0]

    def run_file(self, path: Union[str, "os.PathLike[str]"]) -> List["Job"]:
        """Submits every job of a job file, or an sbatch script."""
        operation = operations.run_file(self.place, self.virtual_gpus, path)
        return self._submitted(blocking.run(operation))

    def job(self, job: Union[int, str]) -> "Job":
        """Returns a job by its number (`3`), number and index (`3[7]`), or name; raises `NotFound`."""
        target, view = blocking.run(operations.find(self.place, job))
        return Job(self, target, view["name"], view)

    def jobs(
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
        rows = blocking.run(self.place.jobs(wanted))
        return [Job(self, Target(row["job"]), row["name"], row) for row in rows]

    def wait(
        self, jobs: Iterable["Job"], timeout: Optional[float] = None, *, check: bool = False
    ) -> List[int]:
        """Waits until all jobs have ended; see `Job.wait`. Returns their exit codes.

        Raises `UsageError` for a job of another cluster.
        """
        targets = targets_in(self.place, jobs)
        return blocking.run(operations.wait(self.place, targets, timeout, check))

    def _submitted(self, response: SubmitResponse) -> List["Job"]:
        jobs = [Job(self, Target(one["job"]), one["name"]) for one in response["jobs"]]
        warn(response["warnings"], jobs)
        return jobs


class Job(Handle[Client]):
    """Job, or one element of an array (`job[3]`)."""

    @property
    def state(self) -> str:
        """Present state: held, pending, starting, running, stopping, done, failed, cancelled, ... Asks each time."""
        return self.refresh().view["state"]

    @property
    def view(self) -> JobView:
        """Row of the job as of the last `refresh()`, as in docs/openapi.json."""
        if self._view is None:
            self.refresh()
        assert self._view is not None, "it was asked for"
        return self._view

    def refresh(self) -> "Job":
        """Asks for the present row of the job, which `view` then returns."""
        self._view = blocking.run(self.client.place.view(self.target))
        return self

    def wait(self, timeout: Optional[float] = None, *, check: bool = False) -> int:
        """Waits until the job has ended and returns its exit code, as `muster wait` does.

        0 is success; otherwise the code of the first task that failed, 1 for an array, 124 at the time limit, 125
        if the job was lost or could not start, 130 if it was cancelled, 137 out of memory, 128+n for a signal.
        With `check`, raises `JobFailed` for a code other than 0. Raises `WaitTimeout` if the job has not ended
        after `timeout` seconds; the job continues. A `timeout` of 0 looks once.
        """
        return self.client.wait([self], timeout, check=check)[0]

    @overload
    def logs(
        self,
        follow: Literal[False] = False,
        *,
        rank: Union[int, str] = 0,
        attempt: Optional[int] = None,
        tail: Optional[int] = None,
    ) -> str: ...

    @overload
    def logs(
        self,
        follow: Literal[True],
        *,
        rank: Union[int, str] = 0,
        attempt: Optional[int] = None,
        tail: Optional[int] = None,
    ) -> Iterator[str]: ...

    def logs(
        self,
        follow: bool = False,
        *,
        rank: Union[int, str] = 0,
        attempt: Optional[int] = None,
        tail: Optional[int] = None,
    ) -> Union[str, Iterator[str]]:
        """Returns what a task has written; with `follow`, yields its lines until it has ended.

        `rank` is a number, or `all` for every task, each line with its rank. Raises `MusterError` for a job that
        has not started; with `follow` it is waited for.
        """
        place = self.client.place
        if follow:
            return blocking.lines(place.following(self.target, rank, attempt, tail))
        return blocking.run(place.logs(self.target, rank, attempt, tail))

    def explain(self) -> Explanation:
        """Explains why the job is pending, when it starts, and what would start it now.

        Raises `NotFound` for a job or element that does not exist.
        """
        return blocking.run(operations.explain(self.client.place, self.target))

    def cancel(self) -> None:
        """Cancels the job in any state, and returns before it has ended; see `wait`."""
        self._act("cancel")

    def hold(self) -> None:
        """Keeps the job from starting; a running job continues. Raises `Refused` for a job that has ended."""
        self._act("hold")

    def release(self) -> None:
        """Undoes a hold. Raises `Refused` for a job that has ended."""
        self._act("release")

    def requeue(self) -> None:
        """Requeues the job: it starts again from the beginning.

        Raises `Refused` for a job that has ended.
        """
        self._act("requeue")

    def checkpoint(self) -> None:
        """Asks the job to save its progress.

        Raises `Refused` for a job without the field `checkpoint`, and for one that is not running.
        """
        blocking.run(self.client.place.checkpoint(self.target))

    def _act(self, action: str) -> None:
        blocking.run(self.client.place.act(action, self.target))

    def __getitem__(self, index: SupportsIndex) -> "Job":
        """Returns one element of an array, by its index there; raises `UsageError` for a negative one."""
        return Job(self.client, self._element(index), self.name)
