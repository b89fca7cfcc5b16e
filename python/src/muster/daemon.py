"""Requests to the daemon of this machine, over its unix socket. Starts none: the program `muster` does, when a
job is submitted."""

from __future__ import annotations

import os
import time
from typing import Any, List, Mapping, Optional

from muster import sockets
from muster.calls import HttpCall, Operation, Pause
from muster.errors import MusterError, NoDaemon, Refused, Unavailable

#: Longest wait for a daemon that restarts, and the time between two attempts; as in the program.
_PATIENCE = 10.0
_LOOK = 0.05


def request(
    named: Optional[str],
    method: str,
    path: str,
    *,
    query: Optional[Mapping[str, Any]] = None,
    body: Optional[Mapping[str, Any]] = None,
    timeout: Optional[float] = None,
) -> Operation[Any]:
    """Sends a request to the daemon behind the socket `named`, or to the first that listens.

    Waits for one that is restarting. Raises `TimeoutError` if there is no answer within `timeout`.
    """
    deadline = time.monotonic() + _PATIENCE
    was_there = False
    while True:
        paths = sockets.candidates(named)
        for socket in paths:
            try:
                return (yield HttpCall(socket, method, path, query or {}, body, timeout))
            except (FileNotFoundError, ConnectionRefusedError):
                continue  # No daemon listens here.
            except ConnectionError as error:
                was_there = True
                if method != "GET":
                    raise _interrupted(error) from error
            except PermissionError as error:
                raise Refused(f"this user may not connect to {socket}", code="forbidden") from error
            except TimeoutError:
                raise
            except OSError as error:
                raise MusterError(f"the connection to {socket} failed: {error}") from error
        # Without a socket file there was no daemon, or it has ended as it should.
        may_come_back = was_there or any(os.path.exists(one) for one in paths)
        if not may_come_back or time.monotonic() > deadline:
            raise _no_daemon(named)
        yield Pause(_LOOK)


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
