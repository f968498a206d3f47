"""The Slurm engine: each try at a cell is a job of an array, handed in and watched through submitit."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mmrs.errors import InputError, MissingExtraError
from mmrs.runs.build import parse_options
from mmrs.sweeps.engines.base import Resources, Task, run_task
from mmrs.sweeps.job import Outcome
from mmrs.sweeps.suites import Cell

MOST = 1000
"""Jobs handed in at a time where nothing is said: the limit of an array on many sites."""
SCRATCH = ".slurm"
"""In the folder of the sweep: submitit's scripts, pickles and logs."""


class SlurmEngine:
    """Jobs on Slurm; a job that reaches its time limit is lost, and goes on from its last checkpoint in the next."""

    def __init__(
        self, task: Task, jobs: int | None, resources: Resources, options: Sequence[str] = (), cluster: str = "slurm"
    ) -> None:
        """Args:
        task: the sweep.
        jobs: at a time; None: as many as Slurm lets run.
        resources: of each.
        options: parameters of submitit as name=value, for example slurm_partition=gpu or timeout_min=1440.
        cluster: "slurm", or "local" to try it without one.
        """
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise InputError("there is no Slurm here: sbatch was not found. Start the sweep on a login node.")
        try:
            import submitit  # noqa: PLC0415  an optional extra
        except ImportError as error:
            raise MissingExtraError("submitit", "slurm") from error
        self.task, self.jobs = task, jobs or MOST
        self._failures = (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError)
        self._executor = submitit.AutoExecutor(folder=task.folder / SCRATCH, cluster=cluster)
        self._executor.update_parameters(
            name="mmrs",
            cpus_per_task=resources.threads,
            gpus_per_node=1 if resources.gpu else 0,
            **parse_options(tuple(options)),
        )
        self._new: list[Cell] = []
        self._pending: dict[str, Any] = {}

    def free(self) -> int:
        """Jobs that may be handed in."""
        return self.jobs - len(self._new) - len(self._pending)

    def submit(self, cell: Cell) -> None:
        """Put a cell into the next array."""
        self._new.append(cell)

    def wait(self, seconds: float) -> list[Outcome]:
        """Hand in what is new, and look which jobs ended."""
        if self._new:
            cells, self._new = self._new, []
            count = len(cells)
            folders, commands = [str(self.task.folder)] * count, [self.task.command] * count
            jobs = self._executor.map_array(run_task, folders, [asdict(cell) for cell in cells], commands)
            self._pending |= {cell.name: job for cell, job in zip(cells, jobs, strict=True)}
        time.sleep(seconds)
        return [self._outcome(name) for name, job in list(self._pending.items()) if job.done()]

    def stop(self) -> None:
        """Runs get SIGTERM and save; jobs in the queue are taken out of it."""
        self._new.clear()
        for job in self._pending.values():
            job.cancel(check=False)

    def close(self) -> None:
        """Cancel what is left."""
        self.stop()

    def _outcome(self, name: str) -> Outcome:
        job = self._pending.pop(name)
        try:
            return Outcome(*job.result())
        except self._failures as error:
            return Outcome(name, "lost", f"The job {job.job_id} of this run ended without an answer: {error}\n")
