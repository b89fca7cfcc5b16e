"""Scores a data set with Ray Data: CPUs read and prepare it, and an actor on each GPU has the model.

A real one reads with `ray.data.read_parquet(…)` and writes with `write_parquet(…)`.
"""
import os

import ray
import ray.data

ROWS = int(os.environ.get("ROWS", "10000"))


class Model:
    """Stands for a model: it is loaded once for each actor."""

    def __init__(self):
        self.weight = 3

    def __call__(self, batch):
        batch["score"] = batch["value"] * self.weight
        return batch


def prepare(batch):
    return {"value": batch["id"] % 10}


def main():
    ray.init()
    gpus = int(ray.cluster_resources().get("GPU", 0))
    ray.data.DataContext.get_current().enable_progress_bars = False
    scored = (
        ray.data.range(ROWS, override_num_blocks=8)
        .map_batches(prepare)
        .map_batches(Model, batch_size=1000, num_gpus=1, num_cpus=0, compute=ray.data.ActorPoolStrategy(size=gpus))
    )
    print(f"{ROWS} rows on {gpus} GPUs; the mean score is {scored.mean('score'):.1f}")


if __name__ == "__main__":
    main()
