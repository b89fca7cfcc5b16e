"""EASY backfilling as a policy of a simulation, for nodes with GPUs, CPUs and memory.

    muster simulate --cluster cluster.yaml --trace jobs.csv --scheduler 'exec:python3 examples/easy_policy.py'

Jobs start in order of arrival. The first that does not fit gets a planned start, from the time limits of the running jobs. A later
job may pass it if it ends by then, or if the first still fits beside it then. docs/simulate.md describes the protocol.
"""

import copy
import json
import sys

FOREVER = float("inf")

# Jobs by number: running ones are in the state without the size of their tasks.
jobs = {}


class Node:
    """Free resources of a node."""

    def __init__(self, state):
        self.name = state["name"]
        self.models = state["models"]
        self.gpus = set(state["free"])
        self.cpus = state["cpus_milli"]
        self.memory = state["memory_bytes"]

    def add(self, job, gpus, sign):
        """Takes the resources of a task, or gives them back."""
        self.gpus = self.gpus - gpus if sign < 0 else self.gpus | gpus
        self.cpus += sign * job["task_cpus_milli"]
        self.memory += sign * job["task_memory_bytes"]

    def fits(self, job):
        """Returns the GPUs for a task, or None if it does not fit."""
        accepted = [gpu for gpu in sorted(self.gpus) if not job["models"] or self.models[gpu] in job["models"]]
        is_enough = (
            len(accepted) >= job["task_gpus"]
            and self.cpus >= job["task_cpus_milli"]
            and self.memory >= job["task_memory_bytes"]
        )
        return set(accepted[: job["task_gpus"]]) if is_enough else None


def limit(job):
    return FOREVER if job["limit_ms"] is None else job["limit_ms"]


def placed(job, nodes):
    """Returns the node and GPUs of each task, fullest nodes first, or None if the job does not fit. Takes them from `nodes`."""
    places = []
    for node in sorted(nodes.values(), key=lambda node: (len(node.gpus), node.cpus)):
        while len(places) < job["tasks"] and (gpus := node.fits(job)) is not None:
            node.add(job, gpus, -1)
            places.append((node.name, gpus))
    if len(places) == job["tasks"]:
        return places
    release(job, places, nodes)
    return None


def release(job, places, nodes):
    for name, gpus in places:
        if name in nodes:
            nodes[name].add(job, gpus, +1)


def fits(job, nodes):
    places = placed(job, nodes)
    if places is not None:
        release(job, places, nodes)
    return places is not None


def planned_start(first, nodes, ends):
    """Returns when the first job can start, and what is free then."""
    nodes = copy.deepcopy(nodes)
    ends = sorted(ends, key=lambda end: end[0])
    for at, (end, job, places) in enumerate(ends):
        release(job, places, nodes)
        # Jobs that end at the same instant free their resources, too.
        is_last = at + 1 == len(ends) or ends[at + 1][0] > end
        if is_last and fits(first, nodes):
            return end, nodes
    return FOREVER, nodes


def decide(state):
    """Returns the jobs that start now, with the places of their tasks."""
    now = state["now_ms"]
    nodes = {node["name"]: Node(node) for node in state["nodes"] if node["is_up"]}
    pending = state["pending"]
    jobs.update((job["job"], job) for job in pending)
    ends = []
    for run in state["running"]:
        places = [(task["node"], set(task["devices"])) for task in run["tasks"]]
        ends.append((run["start_ms"] + limit(run), jobs[run["job"]], places))
    starts = []

    def start(job, places):
        ends.append((now + limit(job), job, places))
        tasks = [{"node": name, "devices": sorted(gpus)} for name, gpus in places]
        starts.append({"job": job["job"], "tasks": tasks})

    # 1. In order of arrival, as long as they fit.
    while pending and (places := placed(pending[0], nodes)) is not None:
        start(pending[0], places)
        pending = pending[1:]
    if not pending:
        return starts
    # 2. Jobs that do not delay the first.
    first = pending[0]
    planned, then = planned_start(first, nodes, ends)
    for job in pending[1:]:
        places = placed(job, nodes)
        if places is None:
            continue
        if now + limit(job) > planned:
            # It still runs at the planned start, beside the first.
            for name, gpus in places:
                then[name].add(job, gpus, -1)
            if not fits(first, then):
                release(job, places, then)
                release(job, places, nodes)
                continue
        start(job, places)
    return starts


for line in sys.stdin:
    print(json.dumps({"start": decide(json.loads(line))}), flush=True)
