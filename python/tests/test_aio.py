"""The asynchronous client: the same answers, in an event loop."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Coroutine

import pytest
from conftest import until

import muster
from muster import aio, blocking, concurrent, daemon
from muster.calls import Command, Pause


def in_a_loop(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_a_job_is_awaited() -> None:
    async def work() -> None:
        job = await aio.run("echo out; exit 3", name="asked", time="1m")
        assert await job.wait() == 3
        assert await job.logs() == "out\n"
        assert await job.state() == "failed"
        assert (await job.refresh())["name"] == "asked"
        assert "failed" in str(await job.explain())
        with pytest.raises(muster.JobFailed):
            await job.wait(check=True)
        assert await aio.job(job.id) == job
        assert job in await aio.jobs(all=True)

    in_a_loop(work())


def test_many_jobs_at_once() -> None:
    async def work() -> None:
        jobs = await asyncio.gather(*(aio.run(f"exit {code}") for code in range(4)))
        assert await asyncio.gather(*(job.wait() for job in jobs)) == [0, 1, 2, 3]
        assert await aio.wait(jobs) == [0, 1, 2, 3]
        assert await aio.wait([]) == []

    in_a_loop(work())


def test_more_waits_than_the_daemon_has_connections_for_one_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    refused: list[float] = []

    def pause(seconds: float) -> Pause:
        if seconds == daemon._BUSY_PAUSE:
            refused.append(seconds)
            go.touch()
        return Pause(seconds)

    monkeypatch.setattr(daemon, "Pause", pause)

    async def work() -> None:
        job = await aio.run(f"until test -e {go}; do sleep 0.02; done; exit 5")
        assert await asyncio.gather(*(job.wait() for _ in range(300))) == [5] * 300
        assert refused, "the daemon takes 256"

    in_a_loop(work())


def test_lines_are_followed_and_following_can_stop(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "job.yaml").write_text("run: echo one; sleep 600\n")
        (job,) = await aio.run_file(tmp_path / "job.yaml")
        lines = job.logs(follow=True)
        async for line in lines:
            assert line == "one\n"
            break
        await lines.aclose()  # type: ignore[attr-defined]
        assert not _children()
        await job.cancel()
        assert await job.wait() == 130

    in_a_loop(work())


def test_waiting_ends_in_time_and_can_be_cancelled(
    blocker: muster.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = asyncio.open_unix_connection
    opened: list[asyncio.StreamWriter] = []

    async def recorded(path: str) -> Any:
        reader, writer = await connect(path)
        opened.append(writer)
        return reader, writer

    async def work() -> None:
        job = await aio.run("true", gpus=1)
        with pytest.raises(muster.WaitTimeout):
            await job.wait(timeout=0.05)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "open_unix_connection", recorded)
            waiting = asyncio.ensure_future(job.wait())
            # The first connection lists the job, the second is the long poll.
            while len(opened) < 2:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert opened[-1].is_closing()
        await job.hold()
        assert await job.state() == "held"
        await job.release()
        await job.cancel()
        assert await job.wait() == 130

    in_a_loop(work())


def test_errors_have_their_hints() -> None:
    async def work() -> None:
        with pytest.raises(muster.InvalidSpec, match="hint:"):
            await aio.run("true", nonsense=1)
        with pytest.raises(muster.NotFound):
            await aio.job(99999)
        with pytest.raises(muster.NoBinary):
            await aio.connect(binary="/none/muster").run("true")
        with pytest.raises(muster.NoDaemon):
            await aio.connect(socket="/none.sock").jobs()

    in_a_loop(work())


def test_the_blocking_client_works_in_a_running_loop_as_in_jupyter() -> None:
    async def work() -> None:
        assert muster.run("exit 4").wait() == 4

    in_a_loop(work())


def test_arrays_have_elements() -> None:
    async def work() -> None:
        job = await aio.run("exit $MUSTER_ARRAY_INDEX", array=3)
        assert [await job[index].wait() for index in range(3)] == [0, 1, 2]
        assert await job.wait() == 1

    in_a_loop(work())


def _children() -> list[str]:
    """Returns the commands of child processes that have not ended."""
    found = []
    for task in os.listdir("/proc/self/task"):
        children = Path(f"/proc/self/task/{task}/children").read_text().split()
        found += [Path(f"/proc/{child}/comm").read_text() for child in children]
    return found


def test_following_ends_its_process_when_the_iterator_is_closed() -> None:
    job = muster.run("echo one; sleep 600")
    lines = job.logs(follow=True)
    assert next(lines) == "one\n"
    assert _children()
    lines.close()  # type: ignore[attr-defined]
    assert not _children()
    job.cancel()


def test_following_ends_with_the_job() -> None:
    job = muster.run(["sleep", "600"])
    until(lambda: job.state == "running", "it runs")
    lines = job.logs(follow=True)
    job.cancel()
    assert list(lines) == []
    assert not _children()


def test_carriage_returns_and_bytes_that_are_not_text() -> None:
    job = muster.run("printf 'a\\rb\\r\\n\\303\\274\\n\\377'")
    assert job.wait() == 0
    expected = ["a\rb\r\n", "ü\n", "\ufffd"]
    assert job.logs() == "".join(expected)
    assert list(job.logs(follow=True)) == expected

    async def work() -> None:
        same = await aio.job(job.id)
        assert await same.logs() == "".join(expected)
        assert [line async for line in same.logs(follow=True)] == expected

    in_a_loop(work())


def test_long_lines() -> None:
    length = 1 << 25
    command = Command(["sh", "-c", f"head -c {length} /dev/zero; echo; echo end"])
    assert [len(line) for line in blocking.lines(command)] == [length + 1, 4]

    async def work() -> None:
        assert [len(line) async for line in concurrent.lines(command)] == [length + 1, 4]

    in_a_loop(work())


def test_jobs_of_two_clusters_are_not_waited_for_together() -> None:
    async def work() -> None:
        here = await aio.run("true")
        other = aio.Job(aio.connect("slurm"), here.target, "other")
        with pytest.raises(muster.UsageError, match="one cluster"):
            await aio.wait([here, other])

    in_a_loop(work())
