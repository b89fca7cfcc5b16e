"""Errors of the client.

Each carries the message of Muster, its hints (next steps) and its code. `str(error)` is what the command
line would print.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type

_PACKAGE = os.path.dirname(__file__) + os.sep


class MusterWarning(UserWarning):
    """Warning of Muster about jobs that it accepted.

    `jobs` are these jobs: where a filter turns warnings into errors, nothing else returns them.
    """

    def __init__(self, message: str, jobs: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.jobs = list(jobs)


def warn(messages: Sequence[str], jobs: Sequence[Any]) -> None:
    """Issues a `MusterWarning` for each message, at the first line outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    for message in messages:
        warnings.warn(MusterWarning(message, jobs), stacklevel=level)


class MusterError(Exception):
    """Failure of a request; the base of all errors here.

    `code` is the stable code of the API (`invalid_spec`, `not_found`, ...), `hints` are the next steps, and
    `rendered` is the whole message where Muster shows the place in a job file.
    """

    def __init__(
        self,
        message: str,
        *,
        hints: Sequence[str] = (),
        code: str = "failure",
        rendered: Optional[str] = None,
    ) -> None:
        Exception.__init__(self, message)  # not that of OSError, which reads more arguments
        self.message = message
        self.hints = list(hints)
        self.code = code
        # The type of the exception says that it is an error.
        self.rendered = None if rendered is None else re.sub("^error: ", "", rendered)

    def __str__(self) -> str:
        lines = [self.rendered or self.message]
        lines += [f"hint: {hint}" for hint in self.hints]
        return "\n".join(lines)

    def __reduce__(self) -> Any:
        # Exceptions are pickled with their positional arguments; these classes take keywords.
        return _restored, (type(self), self.__dict__)


class UsageError(MusterError, ValueError):
    """Call with a wrong argument; nothing was done."""


class InvalidSpec(UsageError):
    """Job that Muster does not accept: an unknown field, or a value that is not allowed."""


class NotFound(MusterError, LookupError):
    """No such job, array element, node or queue."""


class Refused(MusterError):
    """Request that is not allowed, or not in the present state of the job."""


class Unavailable(MusterError):
    """Slurm or Kubernetes does not answer, or the daemon cannot write; a retry may succeed."""


class Busy(Unavailable):
    """Too many open connections of this user to the daemon."""


class NoDaemon(MusterError):
    """No daemon is running, and none could be started."""


class NoBinary(MusterError):
    """The program `muster` is not installed, or not in `PATH`."""


class WaitTimeout(MusterError, TimeoutError):
    """The job has not ended after the time given to `wait`; it continues."""


class JobFailed(MusterError):
    """Job that did not succeed, from `wait(check=True)`.

    `exit_code` is the one that `wait` would return, `job` the job as text, `state` its last state.
    """

    def __init__(self, job: str, state: str, exit_code: int, why: str, hints: Sequence[str]) -> None:
        message = f"job {job} {state}: {why}" if why else f"job {job} {state}"
        super().__init__(message, hints=hints, code="job_failed")
        self.job = job
        self.state = state
        self.exit_code = exit_code


class JobCancelled(JobFailed):
    """Job that a user cancelled, from `wait(check=True)`."""


_CLASSES: Mapping[str, Type[MusterError]] = {
    "invalid_spec": InvalidSpec,
    "invalid_request": UsageError,
    "usage": UsageError,
    "not_found": NotFound,
    "forbidden": Refused,
    "conflict": Refused,
    "refused": Refused,
    "busy": Busy,
    "store_unavailable": Unavailable,
    "unavailable": Unavailable,
    "no_daemon": NoDaemon,
}

# Codes by exit code of the program, for subcommands that print their errors as text.
_BY_EXIT = {2: "usage", 3: "no_daemon", 4: "not_found", 5: "unavailable"}


def from_code(
    code: str, message: str, hints: Sequence[str] = (), rendered: Optional[str] = None
) -> MusterError:
    """Makes the error of a code of the API."""
    kind = _CLASSES.get(code, MusterError)
    return kind(message, hints=hints, code=code, rendered=rendered)


def from_body(status: int, body: object) -> MusterError:
    """Makes the error of a response that is not 2xx."""
    if not isinstance(body, dict) or "code" not in body:
        return MusterError(f"the daemon answered with status {status} and no error")
    places: List[Dict[str, str]] = body.get("diagnostics") or []
    rendered = "\n".join(place["rendered"] for place in places) or None
    return from_code(body["code"], body["message"], body.get("hints", ()), rendered)


def from_stderr(exit_code: int, stderr: str) -> MusterError:
    """Makes the error of a failed command: its last line of JSON, or its text."""
    lines = stderr.strip().splitlines()
    if lines and lines[-1].startswith('{"error":'):
        error = json.loads(lines[-1])["error"]
        return from_code(error["code"], error["message"], error["hints"], error.get("rendered"))
    code = _BY_EXIT.get(exit_code, "failure")
    starts = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    if not starts:
        said = stderr.strip() or f"muster ended with exit code {exit_code} and no message"
        return from_code(code, said)
    told = lines[starts[-1] :]
    hints = [line[len("hint: ") :] for line in told if line.startswith("hint: ")]
    message = "\n".join(line for line in told if not line.startswith("hint: "))
    return from_code(code, message[len("error: ") :], hints)


#: Errors of the system for a program that is missing or cannot be executed.
NOT_A_PROGRAM = (FileNotFoundError, NotADirectoryError, PermissionError)


def no_binary(name: str) -> NoBinary:
    """Makes the error for a program that does not exist."""
    return NoBinary(
        f"there is no program `{name}`",
        hints=["install it and put it into PATH, or name it: muster.connect(binary='/path/to/muster')"],
        code="no_binary",
    )


def _restored(kind: Type[MusterError], fields: Dict[str, Any]) -> MusterError:
    error = kind.__new__(kind)
    error.args = (fields["message"],)
    error.__dict__.update(fields)
    return error
