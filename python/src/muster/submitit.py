"""Executor for submitit: `submitit.AutoExecutor(folder, cluster="muster")`.

submitit finds it by the entry points of this package, and imports it in the submitting program and in the
job. It runs code that was written for Slurm: the same parameters, states, files and checkpoints.
"""

from __future__ import annotations

from muster._submitit.environment import MusterJobEnvironment
from muster._submitit.executor import MusterExecutor
from muster._submitit.job import MusterJob

__all__ = ["MusterExecutor", "MusterJob", "MusterJobEnvironment"]
