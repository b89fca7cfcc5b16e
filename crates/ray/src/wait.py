#!/usr/bin/env python3
"""Waits until enough nodes have joined the Ray cluster of a RayJob, then runs the job's program in its own place.

KubeRay submits the program from within the head's pod as soon as the head answers, while other nodes may still
load their image. Arguments: the number of nodes, then the program with its arguments.
"""
import os
import sys
import time

# Time for all nodes to join: their pods start together, and may have to load an image of some 10 GB first.
JOIN_SECS = 900
CANNOT_START = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127


def say(text):
    print(f"ray: {text}", file=sys.stderr, flush=True)


def alive():
    """Host names of the nodes of the cluster."""
    from ray._raylet import GcsClient

    try:
        nodes = GcsClient(address=os.environ["RAY_ADDRESS"]).get_all_node_info()
    except Exception:  # whatever it raises while the head is busy
        return []
    return sorted(node.node_manager_hostname for node in nodes.values() if node.state == 0)


def wait(wanted):
    deadline = time.monotonic() + JOIN_SECS
    while len(there := alive()) < wanted:
        if time.monotonic() > deadline:
            say(f"{len(there)} of {wanted} nodes joined in {JOIN_SECS}s: {', '.join(there) or 'none'}")
            sys.exit(CANNOT_START)
        time.sleep(1)


def run(words):
    try:
        os.execvp(words[0], words)
    except FileNotFoundError:
        say(f"there is no program `{words[0]}`")
        sys.exit(NOT_FOUND)
    except OSError as error:
        say(f"cannot run `{words[0]}`: {error.strerror}")
        sys.exit(NOT_EXECUTABLE)


wait(int(sys.argv[1]))
run(sys.argv[2:])
