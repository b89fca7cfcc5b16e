"""Carries out operations in the running event loop: the same calls as `muster.blocking`, awaited."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any, AsyncIterator, Coroutine, Optional

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
    take_lines,
)
from muster.errors import NOT_A_PROGRAM, from_stderr, no_binary


async def run(operation: Operation[T]) -> T:
    """Runs an operation to its end and returns its result. Cancelling closes its connection or process."""
    try:
        call = next(operation)
        while True:
            try:
                answer = await _perform(call)
            except Exception as error:  # The operation may handle it; otherwise it comes back.
                call = operation.throw(error)
            else:
                call = operation.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        operation.close()


async def lines(command: Command) -> AsyncIterator[str]:
    """Yields the lines that a command prints, as they come. Closing the iterator ends the command."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = await asyncio.create_subprocess_exec(
                *command.argv,
                env=command.environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        except NOT_A_PROGRAM:
            raise no_binary(command.argv[0]) from None
        try:
            assert process.stdout is not None, "it was asked for"
            pending = bytearray()
            while chunk := await process.stdout.read(READ_SIZE):
                for line in take_lines(pending, chunk):
                    yield line
            if pending:
                yield decoded_text(pending)
            code = await process.wait()
        finally:
            await _end(process)
        if code != 0:
            errors.seek(0)
            raise from_stderr(code, decoded_text(errors.read()))


async def _perform(call: Call) -> Any:
    if isinstance(call, HttpCall):
        return await _within(_request(call), call.timeout)
    if isinstance(call, Command):
        return await _within(_command(call), call.timeout)
    assert isinstance(call, Pause)
    await asyncio.sleep(call.seconds)
    return None


async def _within(work: Coroutine[Any, Any, T], timeout: Optional[float]) -> T:
    try:
        return await asyncio.wait_for(work, timeout)
    except asyncio.TimeoutError:
        # Before Python 3.11 it is not the built-in one.
        raise TimeoutError from None


async def _request(call: HttpCall) -> Any:
    reader, writer = await asyncio.open_unix_connection(call.socket)
    try:
        writer.write(call.encoded())
        await writer.drain()
        response = await reader.read()
    finally:
        writer.close()
    return decoded(response)


async def _command(call: Command) -> Finished:
    pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *call.argv,
            env=call.environment(),
            stdin=none if call.stdin is None else pipe,
            stdout=pipe,
            stderr=pipe,
        )
    except NOT_A_PROGRAM:
        raise no_binary(call.argv[0]) from None
    try:
        stdout, stderr = await process.communicate(call.stdin)
    finally:
        await _end(process)
    assert process.returncode is not None, "it has ended"
    return Finished(process.returncode, decoded_text(stdout), decoded_text(stderr))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a command that still runs because its caller was cancelled."""
    if process.returncode is None:
        process.kill()
        await process.wait()
