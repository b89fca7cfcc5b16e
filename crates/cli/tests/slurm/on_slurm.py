"""Program of a user on a login node, who uses the Python client with `on="slurm"`. Run by python.rs."""

import asyncio
import pickle
import sys

import muster

client = muster.connect(binary=sys.argv[1])
assert "slurm" in repr(client), "MUSTER_ON says so"

job = client.run("echo out; echo of $MUSTER_JOB_ID; exit 3", name="of-python", time="5m", memory="100MB")
assert job.wait() == 3, job.view
assert job.logs() == f"out\nof {job.id}\n", job.logs()
assert (job.state, job.name) == ("failed", "of-python")
assert client.job(job.id) == job == pickle.loads(pickle.dumps(job))
assert job in client.jobs(all=True, name="of-*")
try:
    job.wait(check=True)
    raise AssertionError("the job failed")
except muster.JobFailed as error:
    assert error.exit_code == 3, error

array = client.run("test $MUSTER_ARRAY_INDEX != 1", name="array", array=range(3), time="5m", memory="100MB")
assert array.wait() == 1
assert [array[index].wait() for index in range(3)] == [0, 1, 0]
assert array[1].state == "failed"

held = client.run(["sleep", "600"], name="held", hold=True, time="15m", memory="100MB")
assert held.state == "held"
answer = held.explain()
assert answer.reasons and answer.state == "held" and str(answer).startswith("held"), answer
try:
    held.wait(timeout=1)
    raise AssertionError("a held job does not end")
except muster.WaitTimeout:
    pass
held.release()
for line in client.run("echo one; echo two", time="5m", memory="100MB").logs(follow=True):
    assert line in ("one\n", "two\n"), line
held.cancel()
assert held.wait() == 130

try:
    client.run("true", gpu_count=1)
    raise AssertionError("there is no such field")
except muster.InvalidSpec as error:
    assert "gpu-count" in str(error), error
try:
    client.job(99999999)
    raise AssertionError("there is no such job")
except muster.NotFound:
    pass


async def several() -> None:
    aio = muster.aio.connect(binary=sys.argv[1])
    jobs = await asyncio.gather(
        *(aio.run(f"exit {code}", time="5m", memory="100MB") for code in (0, 4))
    )
    assert await aio.wait(jobs) == [0, 4]
    assert await jobs[1].state() == "failed"


asyncio.run(several())
print("all of it works")
