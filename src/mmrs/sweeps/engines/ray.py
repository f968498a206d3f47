"""The Ray engine: each try at a cell is a task, on this machine or on a cluster.

Plain tasks rather than Ray Tune: what is finished and where to go on from stands in the run folders, so a second record
of it (Tune's own, a pickle that fixes the grid for good) could only disagree with them. A driver that was killed starts
anew from the folders, exactly as the local engine does.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import asdict
from typing import Any

from mmrs.errors import InputError, MissingExtraError
from mmrs.sweeps.engines.base import Resources, Task, run_task
from mmrs.sweeps.job import Outcome
from mmrs.sweeps.suites import Cell

MEASURE_EVERY = 5.0
"""Seconds between looks at the size of the cluster, which may change."""
OBJECT_STORE = 100_000_000
"""Bytes; the runs exchange nothing but their outcomes."""


class RayEngine:
    """Tasks on Ray; nodes and workers may die at any time."""

    def __init__(self, task: Task, jobs: int | None, resources: Resources, *, address: str | None = None) -> None:
        """Args:
        task: the sweep.
        jobs: tasks at a time; None: what the cluster has room for, and a few in the queue.
        resources: of each.
        address: of a running cluster; None: start Ray on this machine.
        """
        if address is None:
            protect()
            os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 starves runs beside anything else
        self.ray = _import_ray()
        self.task, self.jobs, self.resources = task, jobs, resources
        _connect(self.ray, address, jobs * resources.threads if jobs else None)
        options = {"num_cpus": resources.threads, "num_gpus": resources.gpu, "max_retries": 0}
        self._remote = self.ray.remote(**options)(run_task)
        self._pending: dict[Any, Cell] = {}
        self._room, self._measured = 1, -MEASURE_EVERY

    def free(self) -> int:
        """Tasks that may be handed in: a few more than there is room for, so that no place waits for the driver."""
        if self.jobs:
            return self.jobs - len(self._pending)
        if time.monotonic() - self._measured >= MEASURE_EVERY:
            self._room, self._measured = self._capacity(), time.monotonic()
        return max(self._room + 2 - len(self._pending), 0)

    def submit(self, cell: Cell) -> None:
        """Hand in a task."""
        reference = self._remote.remote(str(self.task.folder), asdict(cell), self.task.command)
        self._pending[reference] = cell

    def wait(self, seconds: float) -> list[Outcome]:
        """Tasks that ended; those whose worker or node died are lost."""
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
        cell = self._pending.pop(reference)
        try:
            return Outcome(*self.ray.get(reference))
        except self.ray.exceptions.TaskCancelledError:
            return Outcome(cell.name, "stopped")
        except self.ray.exceptions.RayError as error:
            why = str(error).strip().partition("\n")[0]  # Ray adds pages of its own logs
            return Outcome(cell.name, "lost", f"The worker of this run died: {type(error).__name__}: {why}\n")

    def _capacity(self) -> int:
        there = self.ray.cluster_resources()
        room = int(there.get("CPU", 0)) // self.resources.threads
        return max(1, min(room, int(there.get("GPU", 0) / self.resources.gpu)) if self.resources.gpu else room)


def protect() -> None:
    """Switch Ray's token authentication on, with a token of our own unless the user has one; before Ray is imported.

    Ray listens on every interface, whatever it is told, and runs any code that it is sent.
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
