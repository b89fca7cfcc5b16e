"""Counts to 90, ten steps a second, and keeps its place in a file. Standard library only.

What matters for any training loop: the handler only sets a flag; progress is saved between two steps, synced to disk,
renamed into place, and only then told; and a start looks for what was saved.
"""

import os
import signal
import time

STEPS = 90
asked = False


def ask(_signal, _frame):
    global asked
    asked = True


signal.signal(signal.SIGUSR1, ask)
place = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"muster-counting-{os.environ['MUSTER_JOB_ID']}")


def save(step):
    with open(place + ".new", "w") as file:
        file.write(str(step))
        file.flush()
        os.fsync(file.fileno())
    os.replace(place + ".new", place)
    with open(os.environ["MUSTER_CHECKPOINT_FILE"], "w") as told:
        told.write(f"step {step}\n")


step = int(open(place).read()) if os.path.exists(place) else 0
last = os.environ.get("MUSTER_LAST_CHECKPOINT", "nothing")
print(f"turn {int(os.environ['MUSTER_RESTART_COUNT']) + 1}: {last} was saved, at step {step}", flush=True)
while step < STEPS:
    time.sleep(0.1)
    step += 1
    if asked or step % 25 == 0:
        asked = False
        save(step)
        print(f"saved step {step}", flush=True)
print(f"done at step {step}", flush=True)
if os.path.exists(place):
    os.remove(place)
