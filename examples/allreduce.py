"""Sum numbers over all ranks of a gang and check the result, with nothing but Python's standard library.

Rank 0 listens on MASTER_ADDR:MASTER_PORT, every other rank connects to it (a star). In each step every rank sends
its numbers, rank 0 adds them up and sends the sum back, and every rank checks it. The exit status is 0 only if every
rank came and every sum was right: this job cannot succeed as half a gang.
"""

import argparse
import json
import os
import socket
import sys
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def main():
    options = argparse.ArgumentParser(description="all-reduce over TCP")
    options.add_argument("--seconds", type=float, default=2, help="how long to go on")
    options.add_argument("--size", type=int, default=1000, help="numbers per rank")
    options.add_argument("--patience", type=float, default=30, help="how long to wait for the other ranks")
    options = options.parse_args()

    peers = gather(options.patience) if RANK == 0 else [join(options.patience)]
    if RANK == 0:
        print(f"all {WORLD} ranks are here", flush=True)
    deadline, step, more = time.monotonic() + options.seconds, 0, True
    while more:
        mine = [(RANK + 1) * (step + 1) + place for place in range(options.size)]
        if RANK == 0:
            sums = [sum(column) for column in zip(mine, *(receive(peer)["numbers"] for peer in peers))]
            more = time.monotonic() < deadline
            for peer in peers:
                send(peer, {"numbers": sums, "more": more})
        else:
            send(peers[0], {"numbers": mine})
            answer = receive(peers[0])
            sums, more = answer["numbers"], answer["more"]
        check(sums, step, options.size)
        step += 1
        time.sleep(0.1)  # stands for the work between two steps
    print(f"rank {RANK} of {WORLD}: {step} sums of {options.size} numbers, all right", flush=True)


def gather(patience):
    """Connections of all other ranks, in the order of their ranks."""
    family = socket.getaddrinfo(*ADDRESS, type=socket.SOCK_STREAM)[0][0]
    with socket.create_server(ADDRESS, family=family, backlog=WORLD) as server:
        deadline, peers = time.monotonic() + patience, {}
        while len(peers) < WORLD - 1:
            server.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                connection, _ = server.accept()
            except TimeoutError:
                fail(f"{len(peers) + 1} of {WORLD} ranks came within {patience:g}s")
            connection.settimeout(patience)
            peer = connection.makefile("rw", encoding="ascii")
            rank = receive(peer)["rank"]
            if rank in peers or not 0 < rank < WORLD:
                fail(f"a second rank {rank}" if rank in peers else f"a rank {rank} of {WORLD}")
            peers[rank] = peer
    return [peers[rank] for rank in sorted(peers)]


def join(patience):
    """The connection to rank 0, which may not listen yet."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection(ADDRESS, timeout=patience)
            break
        except OSError as error:
            if time.monotonic() > deadline:
                fail(f"rank 0 does not answer at {ADDRESS[0]}:{ADDRESS[1]}: {error}")
            time.sleep(0.05)
    peer = connection.makefile("rw", encoding="ascii")
    send(peer, {"rank": RANK})
    return peer


def check(sums, step, size):
    """What every rank contributed is known, so the sum is: ranks 1 to WORLD times the step, plus the place."""
    ranks = WORLD * (WORLD + 1) // 2
    expected = [ranks * (step + 1) + WORLD * place for place in range(size)]
    if sums != expected:
        fail(f"step {step}: the sum is wrong")


def send(peer, message):
    peer.write(json.dumps(message) + "\n")
    peer.flush()


def receive(peer):
    line = peer.readline()
    if not line:
        fail("another rank is gone")
    return json.loads(line)


def fail(reason):
    sys.exit(f"rank {RANK}: {reason}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        fail(f"the connection broke: {error}")
