"""Requests as values, and operations that ask for them.

An operation is a generator: it yields calls, is sent their answers, and returns its result. So the same
operation runs blocking (`muster.blocking`) and in an event loop (`muster.concurrent`). Nothing here does I/O.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import time
from dataclasses import dataclass, field
from typing import Any, Dict, Generator, List, Mapping, Optional, TypeVar, Union, cast
from urllib.parse import quote, urlencode

from muster.errors import MusterError, from_body

T = TypeVar("T")


@dataclass(frozen=True)
class HttpCall:
    """Request to a daemon. It ends with `TimeoutError` after `timeout` seconds without an answer."""

    socket: str
    method: str
    path: str
    query: Mapping[str, Union[str, int, bool, None]] = field(default_factory=dict)
    body: Optional[Mapping[str, Any]] = None
    timeout: Optional[float] = None

    def encoded(self) -> bytes:
        """Returns the request as it is sent. The daemon closes the connection after its answer."""
        given = {name: _word(value) for name, value in self.query.items() if value is not None}
        target = quote(self.path) + (f"?{urlencode(given)}" if given else "")
        content = b"" if self.body is None else json.dumps(self.body).encode()
        head = [
            f"{self.method} {target} HTTP/1.1",
            "Host: muster",
            "Accept: application/json",
            "Connection: close",
            f"Content-Length: {len(content)}",
        ]
        if self.body is not None:
            head.append("Content-Type: application/json")
        return "\r\n".join(head).encode() + b"\r\n\r\n" + content


@dataclass(frozen=True)
class Command:
    """Run of the program `muster`. It is ended, with `TimeoutError`, after `timeout` seconds."""

    argv: List[str]
    stdin: Optional[bytes] = None
    timeout: Optional[float] = None
    #: Variable that the program does not get: it refuses one that contradicts its options.
    without: Optional[str] = None

    def environment(self) -> Dict[str, str]:
        """Returns the environment of the program, which a job inherits."""
        return {name: value for name, value in os.environ.items() if name != self.without}


@dataclass(frozen=True)
class Finished:
    """End of a command."""

    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Pause:
    """Pause of some seconds, between two attempts."""

    seconds: float


#: Largest number of bytes that are read at once.
READ_SIZE = 1 << 16

Call = Union[HttpCall, Command, Pause]

#: Generator that yields calls, gets the body of an answer or a `Finished`, and returns a result.
Operation = Generator[Call, Any, T]


def seconds_left(deadline: Optional[float]) -> Optional[float]:
    """Returns the time until an instant of `time.monotonic`; raises `TimeoutError` when it has passed."""
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def decoded_text(output: Union[bytes, bytearray]) -> str:
    """Returns the output of a command as text, with its line ends as they are."""
    return output.decode("utf-8", errors="replace")


def take_lines(pending: bytearray, chunk: bytes) -> List[str]:
    """Adds a chunk of output to `pending`, and moves the complete lines out of it."""
    pending += chunk
    if b"\n" not in chunk:
        return []
    end = pending.rindex(b"\n") + 1
    complete = bytes(pending[:end])
    del pending[:end]
    # Not `splitlines`, which also splits at `\r`.
    return [f"{decoded_text(line)}\n" for line in complete.split(b"\n")[:-1]]


def decoded(response: bytes) -> Any:
    """Returns the body of a response.

    Raises the error that the daemon answered with, or `ConnectionResetError` for an incomplete response.
    """
    parsed = http.client.HTTPResponse(cast(Any, _Received(response)))
    try:
        parsed.begin()
        body = parsed.read()
    except http.client.IncompleteRead as error:
        raise ConnectionResetError("the daemon closed the connection") from error
    except http.client.HTTPException as error:
        if not response:
            raise ConnectionResetError("the daemon closed the connection") from error
        raise MusterError(f"the daemon's answer is not HTTP: {error}") from error
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not 200 <= parsed.status < 300:
        raise from_body(parsed.status, value)
    return value


class _Received:
    """Bytes of a response, in the place of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _word(value: Union[str, int, bool, None]) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
