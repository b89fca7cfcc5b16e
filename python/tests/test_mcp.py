"""`muster mcp`, as an assistant uses it: by the SDK of the protocol, which is not ours."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Awaitable, Callable, Dict, List, Tuple, TypeVar

import pytest
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent

import muster

T = TypeVar("T")


def with_server(binary: str, options: List[str], use: Callable[[ClientSession], Awaitable[T]]) -> T:
    """Starts a server, opens a session, and returns what `use` does."""

    async def run() -> T:
        import os

        # The home of these tests, which the SDK would not pass on.
        server = StdioServerParameters(command=binary, args=["mcp", *options], env=dict(os.environ))
        async with stdio_client(server) as (read, write):
            async with ClientSession(read, write) as session:
                answer = await session.initialize()
                assert answer.server_info.name == "muster"
                return await use(session)

    return asyncio.run(run())


async def answer_of(session: ClientSession, tool: str, values: Dict[str, Any]) -> Tuple[bool, str]:
    """Calls a tool; returns whether it succeeded, and its text."""
    result = await session.call_tool(tool, values)
    assert isinstance(result, CallToolResult)
    blocks = [block for block in result.content if isinstance(block, TextContent)]
    assert len(blocks) == len(result.content)
    return not result.is_error, "".join(block.text for block in blocks)


async def call(session: ClientSession, tool: str, **values: Any) -> str:
    """Calls a tool that succeeds; returns its text."""
    succeeded, text = await answer_of(session, tool, values)
    assert succeeded, text
    return text


def test_without_a_word_nothing_can_be_changed(binary: str) -> None:
    async def use(session: ClientSession) -> None:
        tools = (await session.list_tools()).tools
        names = [tool.name for tool in tools]
        assert "explain_job" in names and "submit_job" not in names and "cancel_job" not in names
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        with pytest.raises(MCPError, match="--allow-changes"):
            await session.call_tool("cancel_job", {"job": "1"})
        with pytest.raises(MCPError, match="no tool"):
            await session.call_tool("drop_everything", {})
        with pytest.raises(MCPError, match="begins with a dash"):
            await session.call_tool("show_job", {"job": "--json"})

    with_server(binary, [], use)


def test_an_assistant_finds_out_why_a_job_waits(binary: str) -> None:
    blocker = muster.run("sleep 600", name="mcp-blocker", gpus=4, time="1h")
    waiting = muster.run("true", name="mcp-waits", gpus=4, time="1h")

    async def use(session: ClientSession) -> None:
        assert "mcp-waits" in await call(session, "list_jobs", name="mcp-*")
        assert "mcp-blocker" not in await call(session, "list_jobs", state="pending")
        explanation = await call(session, "explain_job", job=waiting.id)
        assert "mcp-waits" in explanation and "starts" in explanation
        assert "GPU" in await call(session, "list_nodes")
        assert "default" in await call(session, "list_queues")
        await call(session, "usage", since="1d", by="user")
        advice = await call(session, "advise", facts="nodes: 8\ntightly-coupled: true\nbare-metal: true\n")
        assert "slurm" in advice.lower()
        succeeded, said = await answer_of(session, "show_job", {"job": "no-such-job"})
        assert not succeeded and "no-such-job" in said

    try:
        with_server(binary, [], use)
    finally:
        blocker.cancel()
        waiting.cancel()


def test_an_assistant_that_may_submits_and_reads_output(binary: str) -> None:
    async def use(session: ClientSession) -> None:
        succeeded, said = await answer_of(session, "check_job", {"job_file": "gpsu: 1\nrun: a\n"})
        assert not succeeded and "did you mean `gpus`" in said
        job_file = "name: mcp-job\ngpus: 1\ntime: 1m\nrun: echo spoken\n"
        assert "mcp-job" in await call(session, "check_job", job_file=job_file)
        assert muster.jobs(name="mcp-job", all=True) == []
        await call(session, "submit_job", job_file=job_file)
        muster.jobs(name="mcp-job", all=True)[0].wait()
        assert "spoken" in await call(session, "job_logs", job="mcp-job", lines=5)

    with_server(binary, ["--allow-changes"], use)


def test_schemas_of_tools_are_json_schema(binary: str) -> None:
    import jsonschema  # type: ignore[import-untyped]

    async def use(session: ClientSession) -> None:
        for tool in (await session.list_tools()).tools:
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            assert json.dumps(tool.input_schema)

    with_server(binary, ["--allow-changes"], use)
