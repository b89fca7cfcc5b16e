"""Operations behind the methods of clients and jobs, blocking and asynchronous alike."""

from __future__ import annotations

import os
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from muster import jobfile, states
from muster.calls import Operation
from muster.errors import JobCancelled, JobFailed, WaitTimeout
from muster.explanation import Explanation, explanation
from muster.place import Place
from muster.target import Target, parse
from muster.views import JobView, SubmitResponse


def run(
    place: Place, virtual_gpus: Optional[str], work: jobfile.Work, fields: Mapping[str, Any]
) -> Operation[SubmitResponse]:
    """Submits a command, or the fields of a job file."""
    source = jobfile.write(work, fields)
    return (yield from place.submit([*_daemon_options(virtual_gpus), "-"], source))


def run_file(
    place: Place, virtual_gpus: Optional[str], path: Union[str, "os.PathLike[str]"]
) -> Operation[SubmitResponse]:
    """Submits every job of a file: a job file, or an sbatch script."""
    # A name may begin with a dash, or be that of stdin.
    name = os.path.join(os.curdir, os.fspath(path))
    return (yield from place.submit([*_daemon_options(virtual_gpus), name]))


def _daemon_options(virtual_gpus: Optional[str]) -> List[str]:
    return [] if virtual_gpus is None else ["--virtual-gpus", virtual_gpus]


def wait(
    place: Place, targets: Sequence[Target], timeout: Optional[float], check: bool
) -> Operation[List[int]]:
    """Waits until all have ended and returns their exit codes; with `check`, raises for the first failure."""
    if not targets:
        return []
    try:
        rows = yield from place.wait(targets, timeout)
    except TimeoutError:
        names = ", ".join(str(target) for target in targets)
        raise WaitTimeout(
            f"{_jobs(len(targets))} {names} did not end within {timeout} s",
            hints=["the job goes on; `explain()` says why it is pending, `cancel()` ends it"],
            code="timeout",
        ) from None
    codes = [states.exit_code(row) for row in rows]
    if check:
        for target, row, code in zip(targets, rows, codes):
            if code != 0:
                raise _failure(target, row, code)
    return codes


def _jobs(number: int) -> str:
    return "job" if number == 1 else "jobs"


def _failure(target: Target, row: JobView, code: int) -> JobFailed:
    outcome = states.first_failure(row)
    kind = JobCancelled if row["state"] == "cancelled" else JobFailed
    hints = []
    if outcome is not None and "rank" in outcome:
        hints.append(f"job.logs(rank={outcome['rank']}) returns what it wrote")
    return kind(str(target), row["state"], code, states.outcome_text(outcome), hints)


def explain(place: Place, target: Target) -> Operation[Explanation]:
    """Explains a job, or one element of it."""
    response = yield from place.explain(target)
    text = yield from place.explanation_text(target)
    return explanation(response, text)


def find(place: Place, job: Union[int, str]) -> Operation[Tuple[Target, JobView]]:
    """Looks a job up by number, by number and index (`3[7]`, `3_7`), or by name."""
    target = parse(str(job))
    if target is None:
        row = (yield from place.named(str(job)))["job"]
        return Target(row["job"]), row
    return target, (yield from place.view(target))
