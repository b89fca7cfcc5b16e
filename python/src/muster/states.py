"""States and exit codes of jobs, as `muster wait` counts them. Reads views and does no I/O."""

from __future__ import annotations

from typing import Iterable, Optional

from muster.views import JobView, Outcome

FINAL = frozenset({"done", "failed", "cancelled", "preempted", "unknown"})

#: Exit code of an array with an element that did not succeed, and of failures without a code.
FAILURE = 1
CANCELLED = 130

_CODES = {"timed_out": 124, "cancelled": CANCELLED, "out_of_memory": 137}
#: Outcomes that count as success, as in the API.
_SUCCESS = frozenset({"succeeded", "idle", "stopped_early"})


def is_final(state: str) -> bool:
    """Returns whether a job in this state has ended."""
    return state in FINAL


def outcome_code(outcome: Outcome) -> int:
    """Returns the exit code of an outcome."""
    kind = outcome["kind"]
    if kind in _SUCCESS:
        return 0
    if kind in ("failed", "native"):
        return outcome["code"]
    if kind == "signaled":
        return 128 + outcome["signal"]
    # 125: lost, not started, a dependency failed, or its GPUs were idle; Muster itself decided.
    return _CODES.get(kind, 125)


def first_failure(job: JobView) -> Optional[Outcome]:
    """Returns the outcome of the first element that did not succeed."""
    outcomes = (element.get("outcome") for element in job["elements"])
    return next((one for one in outcomes if one and one["kind"] not in _SUCCESS), None)


def exit_code(job: JobView) -> int:
    """Returns the exit code of a job that has ended."""
    if job["state"] == "done":
        return 0
    if job["array"] is not None:
        return FAILURE
    outcome = first_failure(job)
    if outcome is not None:
        return outcome_code(outcome)
    return CANCELLED if job["state"] == "cancelled" else FAILURE


def all_ended(jobs: Iterable[JobView]) -> bool:
    """Returns whether all jobs have ended."""
    return all(is_final(job["state"]) for job in jobs)


def outcome_text(outcome: Optional[Outcome]) -> str:
    """Returns an outcome in words; empty for none."""
    if outcome is None:
        return ""
    rank, reason = outcome.get("rank"), outcome.get("reason", "")
    words = {
        "failed": f"rank {rank} exited with {outcome.get('code')}",
        "signaled": f"rank {rank} ended by signal {outcome.get('signal')}",
        "out_of_memory": f"rank {rank} ran out of memory",
        "timed_out": "reached its time limit",
        "cancelled": f"cancelled by {outcome.get('by')}",
        "lost": f"rank {rank} lost: {reason}",
        "start_failed": f"rank {rank} did not start: {reason}",
        "dependency_failed": f"job {outcome.get('on')} did not end as its dependency requires",
        "stopped_early": f"stopped early at step {outcome.get('step')}: {outcome.get('why')}",
        "native": outcome.get("says", ""),
        "idle_gpus": f"ended by queue {outcome.get('queue')}: its {outcome.get('gpus')} GPUs were idle",
    }
    return words.get(outcome["kind"], outcome["kind"])
