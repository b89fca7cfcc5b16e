"""Places where jobs run, as operations: what goes to the daemon's socket, and what to the program `muster`.

Submissions, output and explanations as text always go through the program: it reads every kind of job file,
starts the daemon, and finds output files. On this machine all else is asked of the daemon; elsewhere (Slurm,
Kubernetes) the program answers that, too, with the same JSON. docs/adr/0047 has the reasons.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from muster import daemon
from muster.calls import Command, Finished, Operation
from muster.errors import from_code, from_stderr
from muster.states import is_final
from muster.target import Target
from muster.views import (
    ActionResponse,
    BulkResult,
    ExplainResponse,
    JobDetail,
    JobList,
    JobView,
    SubmitResponse,
)
from muster.waiting import element_row, poll

#: Filters of a list of jobs.
Filter = Dict[str, Union[str, bool, None]]


@dataclass(frozen=True)
class Program:
    """Runs of the program `muster` for one place. `options` come after the subcommand."""

    binary: str
    options: Tuple[str, ...]
    #: Variable that contradicts the options.
    without: str

    def command(
        self, subcommand: str, *words: str, stdin: Optional[bytes] = None, timeout: Optional[float] = None
    ) -> Command:
        """Returns the run of a subcommand."""
        return Command([self.binary, subcommand, *self.options, *words], stdin, timeout, self.without)

    def text(self, subcommand: str, *words: str, stdin: Optional[bytes] = None) -> Operation[str]:
        """Runs a subcommand and returns what it prints."""
        finished: Finished = yield self.command(subcommand, *words, stdin=stdin)
        if finished.code != 0:
            raise from_stderr(finished.code, finished.stderr)
        return finished.stdout

    def json(self, subcommand: str, *words: str, stdin: Optional[bytes] = None) -> Operation[Any]:
        """Runs a subcommand and returns its JSON."""
        text = yield from self.text(subcommand, "--json", *words, stdin=stdin)
        return json.loads(text)


@dataclass(frozen=True)
class Place:
    """Operations that are the same in every place."""

    program: Program

    def submit(self, words: Sequence[str], source: Optional[str] = None) -> Operation[SubmitResponse]:
        """Submits a job file: `words` name it, or it is `source`."""
        stdin = None if source is None else source.encode("utf-8")
        response: SubmitResponse = yield from self.program.json("run", *words, stdin=stdin)
        return response

    def explanation_text(self, target: Target) -> Operation[str]:
        """Returns what `muster explain` prints."""
        return (yield from self.program.text("explain", str(target)))

    def logs(
        self, target: Target, rank: Union[int, str], attempt: Optional[int], tail: Optional[int]
    ) -> Operation[str]:
        """Returns the output of a job."""
        return self.program.text("logs", *_log_words(rank, attempt, tail), str(target))

    def following(
        self, target: Target, rank: Union[int, str], attempt: Optional[int], tail: Optional[int]
    ) -> Command:
        """Returns the command that prints the output of a job until the job has ended."""
        words = [*_log_words(rank, attempt, tail), "--follow", str(target)]
        return self.program.command("logs", *words)

    def checkpoint(self, target: Target) -> Operation[str]:
        """Requests a checkpoint."""
        return (yield from self.program.text("checkpoint", "--json", str(target)))

    def named(self, name: str) -> Operation[JobDetail]:
        """Shows the job of a name: the one that has not ended, else the newest."""
        detail: JobDetail = yield from self.program.json("show", "--", name)
        return detail

    @property
    def cluster(self) -> Tuple[str, ...]:
        """Options of the program that name the cluster."""
        return self.program.options

    def view(self, target: Target) -> Operation[JobView]:
        """Returns the row of a job; for an element, its element only and the element's state."""
        row = (yield from self.job(target))["job"]
        if target.index is not None:
            row = yield from element_row(self.explain, target, row)
        return row

    def jobs(self, wanted: Filter) -> Operation[List[JobView]]:
        """Lists jobs."""
        raise NotImplementedError

    def job(self, target: Target) -> Operation[JobDetail]:
        """Shows a job, or one element of it."""
        raise NotImplementedError

    def explain(self, target: Target) -> Operation[ExplainResponse]:
        """Explains a job, or one element of it."""
        raise NotImplementedError

    def act(self, action: str, target: Target) -> Operation[str]:
        """Cancels, holds, releases or requeues a job."""
        raise NotImplementedError

    def wait(self, targets: Sequence[Target], timeout: Optional[float]) -> Operation[List[JobView]]:
        """Waits until all have ended; raises `TimeoutError`. With a timeout of 0 it looks once."""
        raise NotImplementedError


@dataclass(frozen=True)
class Daemon(Place):
    """This machine, or the daemon behind a socket."""

    socket: Optional[str] = None

    def jobs(self, wanted: Filter) -> Operation[List[JobView]]:
        listed: JobList = yield from self._request("GET", "/v1/jobs", query=wanted)
        return listed["jobs"]

    def job(self, target: Target) -> Operation[JobDetail]:
        detail: JobDetail = yield from self._request(
            "GET", f"/v1/jobs/{target.job}", query={"index": target.index}
        )
        return detail

    def explain(self, target: Target, deadline: Optional[float] = None) -> Operation[ExplainResponse]:
        path = f"/v1/jobs/{target.job}/explain"
        response: ExplainResponse = yield from self._request(
            "GET", path, query={"index": target.index}, deadline=deadline
        )
        return response

    def act(self, action: str, target: Target) -> Operation[str]:
        body = {"index": target.index}
        response: ActionResponse = yield from self._request(
            "POST", f"/v1/jobs/{target.job}/{action}", body=body
        )
        return response["message"]

    def wait(self, targets: Sequence[Target], timeout: Optional[float]) -> Operation[List[JobView]]:
        return (yield from poll(self._request, self.explain, targets, timeout))

    def _request(self, method: str, path: str, **details: Any) -> Operation[Any]:
        return daemon.request(self.socket, method, path, **details)


@dataclass(frozen=True)
class Elsewhere(Place):
    """Cluster that the program reaches by `--on`."""

    def jobs(self, wanted: Filter) -> Operation[List[JobView]]:
        given = {name: value for name, value in wanted.items() if value}
        words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]
        listed: JobList = yield from self.program.json("ps", *words)
        return listed["jobs"]

    def job(self, target: Target) -> Operation[JobDetail]:
        detail: JobDetail = yield from self.program.json("show", str(target))
        return detail

    def explain(self, target: Target) -> Operation[ExplainResponse]:
        response: ExplainResponse = yield from self.program.json("explain", str(target))
        return response

    def act(self, action: str, target: Target) -> Operation[str]:
        results: List[BulkResult] = yield from self.program.json(action, "--yes", str(target))
        result = results[0]
        if not result["done"]:
            raise from_code(result.get("code") or "refused", result["message"], result.get("hints") or ())
        return result["message"]

    def wait(self, targets: Sequence[Target], timeout: Optional[float]) -> Operation[List[JobView]]:
        if timeout is not None and timeout <= 0:
            return (yield from self._ended(targets))
        words = ["--json", *(str(target) for target in targets)]
        finished: Finished = yield self.program.command("wait", *words, timeout=timeout)
        # The exit code is that of the jobs; without rows it is that of an error.
        if not finished.stdout.strip():
            raise from_stderr(finished.code, finished.stderr)
        rows: List[JobView] = json.loads(finished.stdout)
        return rows

    def _ended(self, targets: Sequence[Target]) -> Operation[List[JobView]]:
        """Returns the rows of all targets; raises `TimeoutError` if one has not ended."""
        rows = {}
        for target in dict.fromkeys(targets):
            rows[target] = yield from self.view(target)
            if not is_final(rows[target]["state"]):
                raise TimeoutError
        return [rows[target] for target in targets]


def _log_words(rank: Union[int, str], attempt: Optional[int], tail: Optional[int]) -> List[str]:
    words = ["--rank", str(rank)]
    words += [] if attempt is None else ["--attempt", str(attempt)]
    words += [] if tail is None else ["--tail", str(tail)]
    return words


def place(on: Optional[str], socket: Optional[str], binary: str, preset: Optional[str]) -> Place:
    """Returns the place of `on`; `preset` is that of the environment."""
    where = on or preset or "local"
    if where == "auto" or "," in where:
        raise from_code(
            "usage",
            f"a client is for one cluster, but `{where}` may be several",
            ["name it: muster.connect(on='slurm'), or on='local' for this machine"],
        )
    if where == "local":
        options = ("--on", "local") if socket is None else ("--socket", socket)
        return Daemon(Program(binary, options, "MUSTER_ON"), socket)
    if socket is not None:
        raise from_code("usage", f"a socket is that of a daemon, but `{where}` has none")
    return Elsewhere(Program(binary, ("--on", where), "MUSTER_SOCKET"))

