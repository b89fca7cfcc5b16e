"""Trains with Ray Train: one worker for each GPU, a checkpoint every few steps, and a start from the last one.

The model is a number, so that neither PyTorch nor a GPU is needed; with PyTorch, `TorchTrainer` takes the place of
`DataParallelTrainer` and sets up the process group. The storage must be a directory that all nodes share.
"""
import json
import os
import tempfile

import ray
import ray.train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

STORAGE = os.path.abspath(os.environ.get("STORAGE", "ray-results"))
STEPS = int(os.environ.get("STEPS", "30"))
EVERY = 10


def restored():
    """Step and weight of the last checkpoint."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0, 0.0
    with checkpoint.as_directory() as folder, open(os.path.join(folder, "state.json"), encoding="utf-8") as file:
        state = json.load(file)
    return state["step"], state["weight"]


def train(config):
    rank = ray.train.get_context().get_world_rank()
    step, weight = restored()
    if rank == 0:
        print(f"starts at step {step}", flush=True)
    while step < config["steps"]:
        step += 1
        weight += (1 - weight) / 10
        if step % EVERY == 0:
            metrics = {"step": step, "loss": 1 - weight}
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    with open(os.path.join(folder, "state.json"), "w", encoding="utf-8") as file:
                        json.dump({"step": step, "weight": weight}, file)
                ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)


def main():
    ray.init()
    workers = int(ray.cluster_resources().get("GPU", 0))
    trainer = DataParallelTrainer(
        train,
        train_loop_config={"steps": STEPS},
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=True),
        run_config=RunConfig(name="example", storage_path=STORAGE, failure_config=FailureConfig(max_failures=1)),
    )
    result = trainer.fit()
    if result.error:
        raise SystemExit(f"the training failed: {result.error}")
    print(f"{workers} workers; loss {result.metrics['loss']:.2f} at step {result.metrics['step']}")


if __name__ == "__main__":
    main()
