"""Executor of submitit: writes functions to files, and submits jobs that run them."""

from __future__ import annotations

import shlex
import shutil
import sys
import uuid
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Union

from submitit.core import core, utils

from muster import jobfile, sockets
from muster._submitit.environment import NODES, SIGNAL_DELAY, MusterJobEnvironment
from muster._submitit.job import MusterJob
from muster.client import Client
from muster.errors import UsageError
from muster.place import Daemon

#: Parameters that are fields of a job file under the same name.
_FIELDS = frozenset(
    ["queue", "priority", "gpu", "labels", "exclude", "topology", "reservation", "after", "begin", "env"]
    + ["restart", "protect", "extras", "workdir"]
)

#: Parameters for this executor alone: commands before the program; time between the checkpoint signal and
#: the time limit; elements of an array that run at a time; stderr in the file of stdout.
_OWN = frozenset(["setup", "signal_delay_s", "array_parallelism", "stderr_to_stdout"])

#: As in submitit's executor for Slurm.
_SIGNAL_DELAY_S = 90
_TIMEOUT_MIN = 5


class MusterExecutor(core.PicklingExecutor):
    """Runs functions as jobs of the daemon of this machine, which is started if none runs.

    `folder` gets the functions, results and output. `max_num_timeout` limits how often a checkpointable function
    starts again at its time limit. `python` is the interpreter of the jobs, as text for the shell.
    """

    job_class = MusterJob

    def __init__(
        self,
        folder: Union[str, Path],
        max_num_timeout: int = 3,
        max_pickle_size_gb: float = 1.0,
        python: Optional[str] = None,
    ) -> None:
        super().__init__(folder, max_num_timeout=max_num_timeout, max_pickle_size_gb=max_pickle_size_gb)
        self.python = shlex.quote(sys.executable) if python is None else python
        # Each submission is one job or array; a daemon needs no rest between two.
        self._throttling = 0.0
        if not isinstance(Client().place, Daemon):
            raise UsageError(
                "submitit's cluster `muster` is the daemon of this machine, but MUSTER_ON names another",
                hints=["on Slurm, cluster='slurm' is submitit's own", "unset MUSTER_ON"],
                code="usage",
            )

    @classmethod
    def name(cls) -> str:
        """Returns the name for `AutoExecutor(cluster=...)` and the prefix of parameters."""
        return "muster"

    @classmethod
    def affinity(cls) -> int:
        """Returns 2 where Muster is installed: more than `local`, and as much as Slurm.

        Of equal ones submitit takes the first, which is Slurm.
        """
        return -1 if shutil.which("muster") is None else 2

    @classmethod
    def _equivalence_dict(cls) -> core.EquivalenceDict:
        names = ("name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node")
        same: Any = {name: name for name in names}
        equivalents: core.EquivalenceDict = same
        return equivalents

    @classmethod
    def _valid_parameters(cls) -> Set[str]:
        return set(_FIELDS | _OWN)

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        valid = self._valid_parameters() | set(self._equivalence_dict())
        unknown = sorted(set(kwargs) - valid)
        if unknown:
            listed = "\n  - ".join(sorted(valid))
            raise ValueError(f"Unavailable parameter(s): {unknown}\nValid parameters are:\n  - {listed}")
        super()._internal_update_parameters(**kwargs)

    def _num_tasks(self) -> int:
        nodes: int = self.parameters.get("nodes", 1)
        tasks_per_node: int = max(1, self.parameters.get("tasks_per_node", 1))
        return nodes * tasks_per_node

    @property
    def _submitit_command_str(self) -> str:
        return f"{self.python} -u -m submitit.core._submit {shlex.quote(str(self.folder))}"

    def _internal_process_submissions(
        self, delayed_submissions: List[utils.DelayedSubmission]
    ) -> List[core.Job[Any]]:
        if len(delayed_submissions) == 1:
            return super()._internal_process_submissions(delayed_submissions)
        folder = utils.JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        pickles = []
        for delayed in delayed_submissions:
            path = folder / f"{uuid.uuid4().hex}.pkl"
            delayed.set_timeout(self._timeout_min(), self.max_num_timeout)
            delayed.dump(path)
            pickles.append(path)
        first = self._submit(self._submitit_command_str, len(pickles))
        tasks = list(range(self._num_tasks()))
        jobs: List[core.Job[Any]] = []
        for index, path in enumerate(pickles):
            job: MusterJob[Any] = MusterJob(self.folder, f"{first}_{index}", tasks)
            job.paths.move_temporary_file(path, "submitted_pickle")
            jobs.append(job)
        return jobs

    def _submit_command(self, command: str) -> core.Job[Any]:
        job_id = self._submit(command, None)
        return MusterJob(self.folder, job_id, list(range(self._num_tasks())))

    def _submit(self, command: str, elements: Optional[int]) -> str:
        """Submits a job, or an array; returns its number."""
        fields = self._fields(command, elements)
        job = Client().run(fields)
        paths = utils.JobPaths(self.folder, job_id=str(job.id) if elements is None else f"{job.id}_0")
        paths.submission_file.parent.mkdir(parents=True, exist_ok=True)
        paths.submission_file.write_text(jobfile.write(fields, {}), encoding="utf-8")
        return str(job.id)

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        return jobfile.write(self._fields(command, None), {})

    def _make_submission_command(self, submission_file_path: Path) -> List[str]:
        raise NotImplementedError("jobs are submitted by the client, without a command")

    @staticmethod
    def _get_job_id_from_submission_command(string: Union[bytes, str]) -> str:
        raise NotImplementedError("jobs are submitted by the client, which returns the number")

    def _timeout_min(self) -> Any:
        # Typed as int in submitit, which computes with fractions as well.
        return self.parameters.get("timeout_min", _TIMEOUT_MIN)

    def _fields(self, command: str, elements: Optional[int]) -> Dict[str, Any]:
        """Returns the job file of the present parameters."""
        given = self.parameters
        paths = utils.JobPaths(self.folder)
        limit = self._timeout_min() * 60
        # The signal comes while the job runs, also where its limit is short.
        delay = min(given.get("signal_delay_s", _SIGNAL_DELAY_S), limit / 2)
        tasks_per_node = max(1, given.get("tasks_per_node", 1))
        fields: Dict[str, Any] = {
            "name": given.get("name", "submitit"),
            "nodes": given.get("nodes", 1),
            "tasks-per-node": tasks_per_node,
            "time": f"{round(limit * 1000)}ms",
            "checkpoint": {"signal": MusterJobEnvironment.USR_SIG, "grace": f"{round(delay * 1000)}ms"},
            "output": str(paths.stdout),
            "run": "\n".join([*given.get("setup", []), f"exec {command}"]),
        }
        if not given.get("stderr_to_stdout"):
            fields["error"] = str(paths.stderr)
        if "gpus_per_node" in given:
            fields["gpus"] = given["gpus_per_node"]
        if "cpus_per_task" in given:
            fields["cpus"] = given["cpus_per_task"]
        if "mem_gb" in given:
            fields["memory"] = f"{round(given['mem_gb'] * 1024 / tasks_per_node)}MiB"
        if elements is not None:
            fields["array"] = f"0-{elements - 1}%{min(elements, given.get('array_parallelism', 256))}"
        fields.update((name, given[name]) for name in sorted(_FIELDS & set(given)))
        variables = {"SUBMITIT_EXECUTOR": self.name(), NODES: fields["nodes"], SIGNAL_DELAY: delay}
        fields["env"] = {**fields.get("env", {}), **{name: str(value) for name, value in variables.items()}}
        return fields
