"""The Ray engine: each attempt at a run is a Ray task, on this machine or on a cluster.

Plain tasks rather than Ray Tune: the run folders record what is finished and where to continue, so a second record
(Tune's own, a pickle that fixes the grid for good) could only disagree with them. A driver that was killed starts again
from the folders, exactly as the local engine does.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import asdict
from typing import Any

from mmrs.errors import InputError, MissingExtraError
from mmrs.sweeps.engines.base import Resources, SweepContext, execute_serialized
from mmrs.sweeps.job import Outcome
from mmrs.sweeps.suites import RunSpec

MEASURE_EVERY = 5.0
"""Seconds between looks at the size of the cluster, which may change."""
OBJECT_STORE = 100_000_000
"""Size in bytes; the runs exchange nothing but their outcomes."""


class RayEngine:
    """Tasks on Ray; nodes and workers may die at any time."""

    def __init__(
        self, context: SweepContext, jobs: int | None, resources: Resources, *, address: str | None = None
    ) -> None:
        """Args:
        context: the sweep.
        jobs: tasks at a time; None: as many as the cluster has room for, and a few in the queue.
        resources: threads and GPU share per run.
        address: address of a running cluster; None: start Ray on this machine.
        """
        if address is None:
            enable_token_auth()
            os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves runs beside anything else
        self.ray = _import_ray()
        self.context, self.jobs, self.resources = context, jobs, resources
        _connect(self.ray, address, jobs * resources.threads if jobs else None)
        options = {"num_cpus": resources.threads, "num_gpus": resources.gpu, "max_retries": 0}
        self._remote = self.ray.remote(**options)(execute_serialized)
        self._pending: dict[Any, RunSpec] = {}
        self._room, self._measured = 1, -MEASURE_EVERY

    def available_slots(self) -> int:
        """Number of tasks to submit: a few more than there is room for, so that no core waits for the driver."""
        if self.jobs:
            return self.jobs - len(self._pending)
        if time.monotonic() - self._measured >= MEASURE_EVERY:
            self._room, self._measured = self._capacity(), time.monotonic()
        return max(self._room + 2 - len(self._pending), 0)

    def submit(self, spec: RunSpec) -> None:
        """Submit a task."""
        reference = self._remote.remote(str(self.context.folder), asdict(spec), self.context.command)
        self._pending[reference] = spec

    def wait(self, seconds: float) -> list[Outcome]:
        """Outcomes of tasks that ended; those whose worker or node died are lost."""
        if not self._pending:
            time.sleep(seconds)
            return []
        references = list(self._pending)
        self.ray.wait(references, num_returns=1, timeout=seconds, fetch_local=False)
        ended, _ = self.ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
        return [self._outcome(reference) for reference in ended]

    def stop(self) -> None:
        """Running tasks get the signal of Ctrl-C and save; those in the queue end at once."""
        for reference in self._pending:
            self.ray.cancel(reference, force=False)

    def close(self) -> None:
        """Leave the cluster, or end the one that was started here."""
        self.ray.shutdown()

    def _outcome(self, reference: Any) -> Outcome:
        spec = self._pending.pop(reference)
        try:
            return Outcome(*self.ray.get(reference))
        except self.ray.exceptions.TaskCancelledError:
            return Outcome(spec.name, "stopped")
        except self.ray.exceptions.RayError as error:
            why = str(error).strip().partition("\n")[0]  # Ray adds pages of its own logs
            return Outcome(spec.name, "lost", f"The worker of this run died: {type(error).__name__}: {why}\n")

    def _capacity(self) -> int:
        total = self.ray.cluster_resources()
        room = int(total.get("CPU", 0)) // self.resources.threads
        return max(1, min(room, int(total.get("GPU", 0) / self.resources.gpu)) if self.resources.gpu else room)


def enable_token_auth() -> None:
    """Switch Ray's token authentication on, with a new token unless the user has one; call it before Ray is imported.

    Ray listens on every interface, whatever its settings, and runs any code that it receives.
    """
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    if "RAY_AUTH_TOKEN_PATH" not in os.environ:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _import_ray() -> Any:
    try:
        import ray  # noqa: PLC0415  an optional extra
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    return ray


def _connect(ray: Any, address: str | None, cpus: int | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "ignore_reinit_error": True}
    try:
        if address is None:
            own = {"object_store_memory": OBJECT_STORE, "include_dashboard": False}
            ray.init(address="local", num_cpus=cpus, **own, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = f"the Ray cluster at {address}" if address else "Ray on this machine"
        raise InputError(
            f"cannot reach {where}: {str(error).strip().splitlines()[0]} A cluster with authentication needs its token "
            "in RAY_AUTH_TOKEN or ~/.ray/auth_token here too."
        ) from error
