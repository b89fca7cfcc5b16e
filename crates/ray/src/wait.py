#!/usr/bin/env python3
"""Waits until enough nodes have joined the Ray cluster of a RayJob, then runs the job's program.

KubeRay submits the program from within the head's pod as soon as the head answers, while other nodes may still
load their image. Arguments: the number of nodes, then the program with its arguments.

KubeRay learns how a program ended only once it has seen all pods ready together, and the head's is not ready any
more when its program has ended: one that ends at once would hold its GPUs until the time limit. So the end of a
program is told when the nodes are old enough for that.
"""
import os
import signal
import subprocess
import sys
import time

# Time for all nodes to join: their pods start together, and may have to load an image of some 10 GB first.
JOIN_SECS = 900
# Age of a node at which KubeRay has seen its pod ready: probes from 10 s on, every 5 s, and its own pauses.
READY_SECS = 25
CANNOT_START = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127


def say(text):
    print(f"ray: {text}", file=sys.stderr, flush=True)


def alive():
    """Nodes of the cluster."""
    from ray._raylet import GcsClient

    try:
        nodes = GcsClient(address=os.environ["RAY_ADDRESS"]).get_all_node_info()
    except Exception:  # whatever it raises while the head is busy
        return []
    return [node for node in nodes.values() if node.state == 0]


def wait(wanted):
    """Returns the nodes once there are enough; none if they do not come."""
    deadline = time.monotonic() + JOIN_SECS
    while len(there := alive()) < wanted:
        if time.monotonic() > deadline:
            names = ", ".join(sorted(node.node_manager_hostname for node in there))
            say(f"{len(there)} of {wanted} nodes joined in {JOIN_SECS}s: {names or 'none'}")
            return []
        time.sleep(1)
    return there


def run(words):
    """Runs the program; returns its exit code, 128 and the number of a signal that ended it."""
    # Ray sends a signal to all processes of the program: it is the program that handles it.
    for number in signal.SIGTERM, signal.SIGINT:
        signal.signal(number, lambda *_: None)
    try:
        code = subprocess.call(words)
    except FileNotFoundError:
        say(f"there is no program `{words[0]}`")
        return NOT_FOUND
    except OSError as error:
        say(f"cannot run `{words[0]}`: {error.strerror}")
        return NOT_EXECUTABLE
    return code if code >= 0 else 128 - code


nodes = wait(int(sys.argv[1]))
code = run(sys.argv[2:]) if nodes else CANNOT_START
youngest = max((node.start_time_ms / 1000 for node in nodes), default=0)
# Clocks of nodes may differ.
time.sleep(min(max(youngest + READY_SECS - time.time(), 0), READY_SECS))
sys.exit(code)
