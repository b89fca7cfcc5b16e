"""Waits for the end of jobs through the daemon's long poll: nothing is asked while nothing changes."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Sequence, cast

from muster.calls import Operation, Pause
from muster.errors import Busy
from muster.states import is_final
from muster.target import Target
from muster.views import ChangesResponse, ExplainResponse, JobDetail, JobList, JobView

#: Longest wait for one change; then the jobs are listed in any case.
_PATIENCE = 30

#: Longest pause between two lists, and the part of the time waited so far that it takes: hundreds of short
#: tasks end each second, and a list after each would keep the daemon busy.
_PAUSE = 0.05
_PAUSE_PART = 20

#: Pause after a refusal because of too many connections.
_BUSY_PAUSE = 0.25

#: Largest number of jobs in one request.
_IDS_AT_ONCE = 1000

#: Request to the daemon, as an operation.
Request = Callable[..., Operation[Any]]

#: Request for the explanation of an element.
Explain = Callable[[Target], Operation[ExplainResponse]]



def poll(
    request: Request, explain: Explain, targets: Sequence[Target], timeout: Optional[float]
) -> Operation[List[JobView]]:
    """Returns the rows of all targets once they have ended; raises `TimeoutError`."""
    begun = time.monotonic()
    deadline = None if timeout is None else begun + timeout
    ended: Dict[Target, JobView] = {}
    while True:
        try:
            revision = yield from _look(request, explain, targets, ended)
            if len(ended) == len(set(targets)):
                return [ended[target] for target in targets]
            listed = time.monotonic()
            yield from _change(request, revision, deadline)
        except Busy:
            yield Pause(_BUSY_PAUSE)
            listed = time.monotonic()
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            raise TimeoutError
        pause = min(_PAUSE, (now - begun) / _PAUSE_PART) - (now - listed)
        if pause > 0:
            yield Pause(pause)


def _change(request: Request, revision: int, deadline: Optional[float]) -> Operation[None]:
    """Waits until the state differs from `revision`, or until the deadline."""
    query = {"after": revision, "timeout_secs": _PATIENCE}
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        return
    try:
        changed: ChangesResponse = yield from request("GET", "/v1/changes", query=query, timeout=left)
        assert changed["revision"] >= 0, "a revision counts changes"
    except TimeoutError:
        return  # The caller looks at the clock.


def _look(
    request: Request, explain: Explain, targets: Sequence[Target], ended: Dict[Target, JobView]
) -> Operation[int]:
    """Adds the targets that have ended; returns the oldest revision that it saw."""
    open_targets = [target for target in dict.fromkeys(targets) if target not in ended]
    jobs = list(dict.fromkeys(target.job for target in open_targets))
    rows: Dict[int, JobView] = {}
    revision: Optional[int] = None
    for start in range(0, len(jobs), _IDS_AT_ONCE):
        ids = ",".join(str(job) for job in jobs[start : start + _IDS_AT_ONCE])
        listed: JobList = yield from request("GET", "/v1/jobs", query={"ids": ids, "all": True})
        rows.update((row["job"], row) for row in listed["jobs"])
        revision = listed["revision"] if revision is None else min(revision, listed["revision"])
    for target in open_targets:
        row = rows.get(target.job)
        if row is None or target.index is not None:
            # One that is not listed does not exist, which the request for it alone says.
            detail: JobDetail = yield from request(
                "GET", f"/v1/jobs/{target.job}", query={"index": target.index}
            )
            row = detail["job"]
        if target.index is not None:
            row = yield from element_row(explain, target, row)
        if is_final(row["state"]):
            ended[target] = row
    return revision or 0


def element_row(explain: Explain, target: Target, row: JobView) -> Operation[JobView]:
    """Returns the row of a job as that of one element of it: with its state, and without the others."""
    kept = [one for one in row["elements"] if one["element"]["index"] == target.index]
    if kept:
        state = kept[0]["state"]
    else:
        # The view does not list all elements of a large array.
        state = (yield from explain(target))["explanation"]["state"]
    return cast(JobView, {**row, "elements": kept, "array": None, "state": state})
