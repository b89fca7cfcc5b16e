"""Carries out operations in the calling thread.

Each request has a connection or process of its own, so that threads and forked processes share nothing. It
needs no event loop, and works beside a running one, as in Jupyter.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator

from muster.calls import (
    READ_SIZE,
    Call,
    Command,
    Finished,
    HttpCall,
    Operation,
    Pause,
    T,
    decoded,
    decoded_text,
    seconds_left,
    take_lines,
)
from muster.errors import NOT_A_PROGRAM, from_stderr, no_binary


def run(operation: Operation[T]) -> T:
    """Runs an operation to its end and returns its result."""
    try:
        call = next(operation)
        while True:
            try:
                answer = _perform(call)
            except Exception as error:  # The operation may handle it; otherwise it comes back.
                call = operation.throw(error)
            else:
                call = operation.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        operation.close()


def lines(command: Command) -> Iterator[str]:
    """Yields the lines that a command prints, as they come. Closing the iterator ends the command."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command.argv,
                env=command.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        except NOT_A_PROGRAM:
            raise no_binary(command.argv[0]) from None
        try:
            assert process.stdout is not None, "it was asked for"
            pending = bytearray()
            with process.stdout:
                output = process.stdout.fileno()
                for chunk in iter(lambda: os.read(output, READ_SIZE), b""):
                    yield from take_lines(pending, chunk)
            if pending:
                yield decoded_text(pending)
            code = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if code != 0:
            errors.seek(0)
            raise from_stderr(code, decoded_text(errors.read()))


def _perform(call: Call) -> Any:
    if isinstance(call, HttpCall):
        return _request(call)
    if isinstance(call, Command):
        return _command(call)
    assert isinstance(call, Pause)
    time.sleep(call.seconds)
    return None


def _request(call: HttpCall) -> Any:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        deadline = None if call.timeout is None else time.monotonic() + call.timeout

        def receive() -> bytes:
            # The timeout of a socket is for one call, not for the whole response.
            connection.settimeout(seconds_left(deadline))
            return connection.recv(READ_SIZE)

        try:
            connection.settimeout(call.timeout)
            connection.connect(call.socket)
            connection.sendall(call.encoded())
            response = b"".join(iter(receive, b""))
        except socket.timeout:
            # Before Python 3.10 it is not the built-in one.
            raise TimeoutError from None
    return decoded(response)


def _command(call: Command) -> Finished:
    # Without input of its own it must not read that of this program.
    source: Dict[str, Any] = {"stdin": subprocess.DEVNULL} if call.stdin is None else {"input": call.stdin}
    try:
        done = subprocess.run(
            call.argv,
            env=call.environment(),
            capture_output=True,
            timeout=call.timeout,
            check=False,
            **source,
        )
    except NOT_A_PROGRAM:
        raise no_binary(call.argv[0]) from None
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return Finished(done.returncode, decoded_text(done.stdout), decoded_text(done.stderr))
