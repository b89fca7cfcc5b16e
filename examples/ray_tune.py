"""Searches a learning rate with Ray Tune: 20 trials, of which ASHA stops the worse ones early.

Each trial asks for one GPU, so as many run at once as the job has.
"""
import math
import os

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler

STORAGE = os.path.abspath(os.environ.get("STORAGE", "ray-results"))
EPOCHS = int(os.environ.get("EPOCHS", "9"))


def train(config):
    """Stands for a training: its loss falls, fastest near a learning rate of 0.01."""
    distance = abs(math.log10(config["lr"]) + 2)
    for epoch in range(1, EPOCHS + 1):
        tune.report({"loss": distance + 1 / epoch})


def main():
    ray.init()
    tuner = tune.Tuner(
        tune.with_resources(train, {"cpu": 1, "gpu": 1}),
        param_space={"lr": tune.loguniform(1e-4, 1e-1)},
        tune_config=tune.TuneConfig(
            num_samples=20,
            metric="loss",
            mode="min",
            scheduler=ASHAScheduler(max_t=EPOCHS, grace_period=1, reduction_factor=3),
        ),
        run_config=tune.RunConfig(name="search", storage_path=STORAGE),
    )
    results = tuner.fit()
    if results.errors:
        raise SystemExit(f"{len(results.errors)} trials failed: {results.errors[0]}")
    best = results.get_best_result()
    print(f"{len(results)} trials; the best learning rate is {best.config['lr']:.4f}")


if __name__ == "__main__":
    main()
