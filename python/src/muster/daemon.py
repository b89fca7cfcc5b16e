"""Requests to the daemon of this machine, over its unix socket. Starts none: the program `muster` does, when a
job is submitted."""

from __future__ import annotations

import os
import time
from typing import Any, List, Mapping, Optional

from muster import sockets
from muster.calls import HttpCall, Operation, Pause, seconds_left
from muster.errors import Busy, MusterError, NoDaemon, Refused, Unavailable

#: Longest wait for a daemon that restarts, and the time between two attempts; as in the program.
_PATIENCE = 10.0
_LOOK = 0.05

#: Pause after a refusal because of too many connections.
_BUSY_PAUSE = 0.25


def request(
    named: Optional[str],
    method: str,
    path: str,
    *,
    query: Optional[Mapping[str, Any]] = None,
    body: Optional[Mapping[str, Any]] = None,
    deadline: Optional[float] = None,
) -> Operation[Any]:
    """Sends a request to the daemon behind the socket `named`, or to the first that listens.

    Waits for one that is restarting, and repeats a GET that is refused because of too many connections.
    Raises `TimeoutError` if there is no answer until `deadline`, an instant of `time.monotonic`.
    """
    was_there = False
    # From the first failed attempt on: a long poll may have waited for longer before it failed.
    patience_ends: Optional[float] = None
    while True:
        pause = _LOOK
        failure: Optional[MusterError] = None
        paths = sockets.candidates(named)
        for socket in paths:
            begun = time.monotonic()
            try:
                left = seconds_left(deadline)
                return (yield HttpCall(socket, method, path, query or {}, body, left))
            except (FileNotFoundError, ConnectionRefusedError):
                continue  # No daemon listens here.
            except ConnectionError as error:
                was_there = True
                if method != "GET":
                    raise _interrupted(error) from error
                if time.monotonic() - begun > _PATIENCE:
                    patience_ends = None  # It has ended only now.
            except Busy as error:
                if method != "GET":
                    raise
                failure, pause = error, _BUSY_PAUSE
                break  # The next socket is another daemon's.
            except PermissionError as error:
                raise Refused(f"this user may not connect to {socket}", code="forbidden") from error
            except TimeoutError:
                raise
            except OSError as error:
                raise MusterError(f"the connection to {socket} failed: {error}") from error
        # Without a socket file there was no daemon, or it has ended as it should.
        may_come_back = failure is not None or was_there or any(os.path.exists(one) for one in paths)
        now = time.monotonic()
        patience_ends = now + _PATIENCE if patience_ends is None else patience_ends
        if not may_come_back or now > patience_ends:
            raise failure or _no_daemon(named)
        left = seconds_left(deadline)
        yield Pause(pause if left is None else min(pause, left))


def _interrupted(error: ConnectionError) -> Unavailable:
    return Unavailable(
        f"the daemon ended before it answered: {error}",
        hints=["look at the job before you repeat the request: it may have been carried out"],
        code="unavailable",
    )


def _no_daemon(named: Optional[str]) -> NoDaemon:
    if named is not None:
        return NoDaemon(f"no daemon listens on {named}", code="no_daemon")
    hints: List[str] = [
        "`muster.run` starts one for this user; `muster serve` runs one in the foreground"
    ]
    return NoDaemon("no daemon is running", hints=hints, code="no_daemon")
