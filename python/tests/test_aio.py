"""The asynchronous client: the same answers, in an event loop."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Coroutine

import pytest
from conftest import until

import muster
from muster import aio, waiting
from muster.calls import Pause


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
        if seconds == waiting._BUSY_PAUSE:
            refused.append(seconds)
            go.touch()
        return Pause(seconds)

    monkeypatch.setattr(waiting, "Pause", pause)

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


def test_waiting_ends_in_time_and_can_be_cancelled(blocker: muster.Job) -> None:
    async def work() -> None:
        job = await aio.run("true", gpus=1)
        with pytest.raises(muster.WaitTimeout):
            await job.wait(timeout=0.05)
        waiting = asyncio.ensure_future(job.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
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
    job = muster.run(["sleep", "600"])
    until(lambda: job.state == "running", "it runs")
    lines = job.logs(follow=True)
    job.cancel()
    assert list(lines) == []
    assert not _children()
