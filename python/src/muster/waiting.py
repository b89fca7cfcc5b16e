"""Waits for the end of jobs through the daemon's long poll: nothing is asked while nothing changes."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Sequence, cast

from muster.calls import Operation, Pause, seconds_left
from muster.errors import Busy
from muster.states import is_final
from muster.target import Target
from muster.views import ExplainResponse, JobDetail, JobList, JobView

#: Longest wait for one change; then the jobs are listed in any case.
_PATIENCE = 30

#: Longest pause between two lists, and the part of the time waited so far that it takes: hundreds of short
#: tasks end each second, and a list after each would keep the daemon busy.
_PAUSE = 0.05
_PAUSE_PART = 20

#: Longest time that a wait with a timeout of 0 takes for its one look, in seconds.
_ONE_LOOK = 10.0

#: Largest number of jobs in one request.
_IDS_AT_ONCE = 1000

#: Request to the daemon, as an operation.
Request = Callable[..., Operation[Any]]

#: Request for the explanation of an element, until an instant of `time.monotonic`.
Explain = Callable[[Target, Optional[float]], Operation[ExplainResponse]]


def poll(
    request: Request, explain: Explain, targets: Sequence[Target], timeout: Optional[float]
) -> Operation[List[JobView]]:
    """Returns the rows of all targets once they have ended; raises `TimeoutError`.

    With a timeout of 0 it looks once.
    """
    begun = time.monotonic()
    looks_once = timeout is not None and timeout <= 0
    limit = _ONE_LOOK if looks_once else timeout
    deadline = None if limit is None else begun + limit
    ended: Dict[Target, JobView] = {}
    while True:
        listed = time.monotonic()
        try:
            revision = yield from _look(request, explain, targets, ended, deadline)
            if len(ended) == len(set(targets)):
                return [ended[target] for target in targets]
            if looks_once:
                raise TimeoutError
            listed = time.monotonic()
            query = {"after": revision, "timeout_secs": _PATIENCE}
            yield from request("GET", "/v1/changes", query=query, deadline=deadline)
        except Busy:
            pass  # The request was repeated for a while; a wait goes on for longer.
        left = seconds_left(deadline)
        now = time.monotonic()
        pause = min(_PAUSE, (now - begun) / _PAUSE_PART) - (now - listed)
        if pause > 0:
            yield Pause(pause if left is None else min(pause, left))


def _look(
    request: Request,
    explain: Explain,
    targets: Sequence[Target],
    ended: Dict[Target, JobView],
    deadline: Optional[float],
) -> Operation[int]:
    """Adds the targets that have ended; returns the oldest revision that it saw."""
    open_targets = [target for target in dict.fromkeys(targets) if target not in ended]
    jobs = list(dict.fromkeys(target.job for target in open_targets))
    rows: Dict[int, JobView] = {}
    revision: Optional[int] = None
    for start in range(0, len(jobs), _IDS_AT_ONCE):
        ids = ",".join(str(job) for job in jobs[start : start + _IDS_AT_ONCE])
        query = {"ids": ids, "all": True}
        listed: JobList = yield from request("GET", "/v1/jobs", query=query, deadline=deadline)
        rows.update((row["job"], row) for row in listed["jobs"])
        revision = listed["revision"] if revision is None else min(revision, listed["revision"])
    for target in open_targets:
        row = rows.get(target.job)
        if row is None or target.index is not None:
            # One that is not listed does not exist, which the request for it alone says.
            detail: JobDetail = yield from request(
                "GET", f"/v1/jobs/{target.job}", query={"index": target.index}, deadline=deadline
            )
            row = detail["job"]
        if target.index is not None:
            row = yield from element_row(lambda one: explain(one, deadline), target, row)
        if is_final(row["state"]):
            ended[target] = row
    return revision or 0


def element_row(
    explain: Callable[[Target], Operation[ExplainResponse]], target: Target, row: JobView
) -> Operation[JobView]:
    """Returns the row of a job as that of one element of it: with its state, and without the others."""
    kept = [one for one in row["elements"] if one["element"]["index"] == target.index]
    if kept:
        state = kept[0]["state"]
    else:
        # The view does not list all elements of a large array.
        state = (yield from explain(target))["explanation"]["state"]
    return cast(JobView, {**row, "elements": kept, "array": None, "state": state})
