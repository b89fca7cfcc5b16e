"""Estimates pi with Ray Core: an actor for each GPU, all placed together, and many small tasks.

The placement group gets all of its GPUs or none, so that two programs on one cluster cannot each hold a half.
"""
import os
import random

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

TASKS = int(os.environ.get("TASKS", "20"))
POINTS = 20_000


@ray.remote(num_cpus=1)
def inside(seed):
    """Counts random points in the quarter of a circle."""
    draw = random.Random(seed).random
    return sum(draw() ** 2 + draw() ** 2 < 1 for _ in range(POINTS))


@ray.remote(num_gpus=1, num_cpus=0)
class Worker:
    """Holds a GPU; a real one would keep a model on it."""

    def where(self):
        return ray.get_runtime_context().get_node_id(), os.environ.get("CUDA_VISIBLE_DEVICES")


def main():
    ray.init()
    gpus = int(ray.cluster_resources().get("GPU", 0))
    group = placement_group([{"GPU": 1}] * gpus, strategy="SPREAD")
    ray.get(group.ready())
    on_group = PlacementGroupSchedulingStrategy(placement_group=group)
    workers = [Worker.options(scheduling_strategy=on_group).remote() for _ in range(gpus)]
    places = set(ray.get([worker.where.remote() for worker in workers]))
    hits = sum(ray.get([inside.remote(seed) for seed in range(TASKS)]))
    nodes = {node for node, _ in places}
    print(f"{len(places)} GPUs on {len(nodes)} nodes; pi is about {4 * hits / (TASKS * POINTS):.2f}")


if __name__ == "__main__":
    main()
