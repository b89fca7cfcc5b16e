"""EASY backfilling as a policy of a simulation, for nodes with GPUs of one model.

    muster simulate --cluster cluster.yaml --trace jobs.csv --scheduler 'exec:python3 examples/easy_policy.py'

Jobs start in order of arrival. The first that does not fit gets a planned start, from the time limits of the running jobs. A later
job may pass it if it ends by then, or uses only GPUs that the first leaves free. docs/simulate.md describes the protocol.
"""

import json
import sys

FOREVER = float("inf")


def width(job):
    return job["tasks"] * job["task_gpus"]


def limit(job):
    return FOREVER if job["limit_ms"] is None else job["limit_ms"]


def planned_start(first, free, ends):
    """Returns when the first job can start, and how many GPUs are free beside it then."""
    start = 0
    for end, gpus in sorted(ends):
        # Jobs that end at the same instant free their GPUs, too.
        if free >= width(first) and end > start:
            break
        free, start = free + gpus, end
    return start, free - width(first)


def decide(state):
    """Returns the numbers of the jobs that start now."""
    now = state["now_ms"]
    free = sum(len(node["free"]) for node in state["nodes"])
    ends = [
        (run["start_ms"] + limit(run), sum(len(task["devices"]) for task in run["tasks"]))
        for run in state["running"]
    ]
    pending = state["pending"]
    starts = []

    def start(job):
        nonlocal free
        free -= width(job)
        ends.append((now + limit(job), width(job)))
        starts.append(job["job"])

    # 1. In order of arrival, as long as they fit.
    while pending and width(pending[0]) <= free:
        start(pending[0])
        pending = pending[1:]
    # 2. Jobs that do not delay the first.
    if pending:
        planned, extra = planned_start(pending[0], free, ends)
        for job in pending[1:]:
            is_over_in_time = now + limit(job) <= planned
            if width(job) <= free and (is_over_in_time or width(job) <= extra):
                start(job)
                if not is_over_in_time:
                    extra -= width(job)
    return starts


for line in sys.stdin:
    answer = {"start": [{"job": job} for job in decide(json.loads(line))]}
    print(json.dumps(answer), flush=True)
