"""The Slurm engine: each attempt at a run is a job of an array, submitted and watched through submitit."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mmrs.errors import InputError, MissingExtraError
from mmrs.runs.build import parse_options
from mmrs.sweeps.engines.base import Resources, SweepContext, execute_serialized
from mmrs.sweeps.job import Outcome
from mmrs.sweeps.suites import RunSpec

MOST = 1000
"""Default number of jobs at a time: the limit of an array on many sites."""
SCRATCH = ".slurm"
"""Folder, within that of the sweep, of submitit's scripts, pickles and logs."""


class SlurmEngine:
    """Jobs on Slurm; a run whose job reaches its time limit is lost, and the next job continues it."""

    def __init__(
        self,
        context: SweepContext,
        jobs: int | None,
        resources: Resources,
        options: Sequence[str] = (),
        cluster: str = "slurm",
    ) -> None:
        """Args:
        context: the sweep.
        jobs: jobs at a time; None: as many as Slurm lets run.
        resources: threads and GPU share per run.
        options: parameters of submitit as name=value, for example slurm_partition=gpu or timeout_min=1440.
        cluster: "slurm", or "local" to try the engine without Slurm.
        """
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise InputError("there is no Slurm here: sbatch was not found. Start the sweep on a login node.")
        try:
            import submitit  # noqa: PLC0415  an optional extra
        except ImportError as error:
            raise MissingExtraError("submitit", "slurm") from error
        self.context, self.jobs = context, jobs or MOST
        self._failures = (submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError)
        self._executor = submitit.AutoExecutor(folder=context.folder / SCRATCH, cluster=cluster)
        self._executor.update_parameters(
            name="mmrs",
            cpus_per_task=resources.threads,
            gpus_per_node=1 if resources.gpu else 0,
            **parse_options(tuple(options)),
        )
        self._new: list[RunSpec] = []
        self._pending: dict[str, Any] = {}

    def available_slots(self) -> int:
        """Number of jobs that may be submitted."""
        return self.jobs - len(self._new) - len(self._pending)

    def submit(self, spec: RunSpec) -> None:
        """Put a run into the next array."""
        self._new.append(spec)

    def wait(self, seconds: float) -> list[Outcome]:
        """Submit new runs, and collect the outcomes of jobs that ended."""
        if self._new:
            specs, self._new = self._new, []
            count = len(specs)
            folders, commands = [str(self.context.folder)] * count, [self.context.command] * count
            jobs = self._executor.map_array(execute_serialized, folders, [asdict(spec) for spec in specs], commands)
            self._pending |= {spec.name: job for spec, job in zip(specs, jobs, strict=True)}
        time.sleep(seconds)
        return [self._outcome(name) for name, job in list(self._pending.items()) if job.done()]

    def stop(self) -> None:
        """Runs get SIGTERM and save; jobs in the queue are removed from it."""
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
