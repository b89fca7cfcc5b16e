"""Creates five actors, each on a GPU, one after the other, and needs them all.

usage: driver.py NAME FOLDER [OTHER]. With OTHER, it creates the first four in step with the program of that name.
"""
import os
import sys
import time

import ray

NAME, FOLDER, *OTHERS = sys.argv[1:]


def mark(name, number):
    return os.path.join(FOLDER, f"{name}-{number}")


@ray.remote(num_gpus=1)
class Worker:
    def ready(self):
        return True


ray.init(log_to_driver=False)
workers = []
for number in range(1, 6):
    workers.append(Worker.remote())
    ray.get(workers[-1].ready.remote())
    open(mark(NAME, number), "w", encoding="utf-8").close()
    while not all(os.path.exists(mark(other, min(number, 4))) for other in OTHERS):
        time.sleep(0.1)
print(f"{NAME}: all 5 actors are there", flush=True)
while not os.path.exists(mark(NAME, "go")):
    time.sleep(0.1)
