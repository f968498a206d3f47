"""The loop of a sweep: start the runs that are left, record how each attempt ended, retry within limits."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmrs.errors import RunBusyError, StorageError
from mmrs.runs.folder import RunFolder
from mmrs.runs.history import is_finished
from mmrs.storage import checkpoint as store
from mmrs.sweeps.engines.base import Engine
from mmrs.sweeps.job import Outcome, record_error
from mmrs.sweeps.suites import RunSpec, start_order

MAX_WORKER_DEATHS = 10
"""Deaths of a run's process, without a new checkpoint between them, beyond which the run counts as failed."""
UNSEEN_WAIT = 15.0
"""Seconds until a run that ended elsewhere is looked for again: network disks show new files late."""
BUSY_WAIT = 2.0
"""Seconds before a run that another process holds is looked at again."""
State = Literal["waiting", "running", "finished", "failed"]


@dataclass
class Job:
    """A run and its state in the sweep."""

    spec: RunSpec
    state: State = "waiting"
    failures: int = 0
    """Attempts that raised an exception."""
    deaths: int = 0
    """Attempts whose process died, since the last new checkpoint."""
    step: int = 0
    """Step of the newest checkpoint when its process last died."""
    not_before: float = 0.0
    """Time, by `time.monotonic`, before which the run is not started again."""
    error: str = ""


class Scheduler:
    """All jobs of a sweep; `run` brings each of them to `finished` or `failed`."""

    def __init__(self, folder: Path, specs: Iterable[RunSpec], retries: int) -> None:
        """Args:
        folder: folder of the sweep.
        specs: the runs.
        retries: how often a run that raised an exception is tried again.
        """
        self.folder, self.retries = folder, retries
        self.jobs = {spec.name: Job(spec) for spec in specs}
        for job in self.jobs.values():
            if is_finished(folder / job.spec.name):
                job.state = "finished"
        self.skipped = sum(job.state == "finished" for job in self.jobs.values())
        ordered = (self.jobs[spec.name] for spec in start_order(job.spec for job in self.jobs.values()))
        self._waiting = deque(job for job in ordered if job.state == "waiting")

    def counts(self) -> Counter[State]:
        """Number of jobs by state."""
        return Counter(job.state for job in self.jobs.values())

    def run(self, engine: Engine, stopping: Callable[[], bool], tick: Callable[[], None]) -> None:
        """Work until nothing is left, or until `stopping` is true and everything that ran has been saved.

        Args:
            engine: where the runs are executed.
            stopping: whether to stop; called a few times per second.
            tick: called a few times per second, to show the progress.
        """
        requested = False
        while self._waiting or self.running():
            if stopping():
                if not requested:
                    engine.stop()
                requested = True
                if not self.running():
                    break
            else:
                self._fill(engine)
            for outcome in engine.wait(0.25):
                self._record(outcome, requested)
            tick()

    def running(self) -> list[Job]:
        """Jobs that were handed to an engine."""
        return [job for job in self.jobs.values() if job.state == "running"]

    def _fill(self, engine: Engine) -> None:
        for _ in range(min(engine.available_slots(), len(self._waiting))):
            job = self._next()
            if job is None:
                return
            job.state = "running"
            engine.submit(job.spec)

    def _next(self) -> Job | None:
        """The first waiting job that may start; jobs that another sweep finished meanwhile are marked as finished."""
        for _ in range(len(self._waiting)):
            job = self._waiting.popleft()
            path = self.folder / job.spec.name
            if is_finished(path):
                job.state = "finished"
            elif job.not_before > time.monotonic():
                self._waiting.append(job)
            elif _is_locked(path):
                self._requeue(job, BUSY_WAIT)
            else:
                return job
        return None

    def _requeue(self, job: Job, seconds: float) -> None:
        job.state, job.not_before = "waiting", time.monotonic() + seconds
        self._waiting.append(job)

    def _record(self, outcome: Outcome, stopping: bool) -> None:
        job = self.jobs[outcome.name]
        path = self.folder / job.spec.name
        if outcome.kind == "finished" and is_finished(path):
            job.state, job.error = "finished", ""
        elif outcome.kind == "finished":
            job.deaths += 1
            text = f"The run reports that it finished, but {path} does not. Do all machines see the same folder?\n"
            self._record_failure(job, text, job.deaths > MAX_WORKER_DEATHS, UNSEEN_WAIT)
        elif outcome.kind in ("busy", "stopped") or stopping:
            self._requeue(job, BUSY_WAIT)
        elif outcome.kind == "lost":
            self._record_death(job, outcome.text)
        else:
            job.failures += 1
            self._record_failure(job, outcome.text, job.failures > self.retries)

    def _record_death(self, job: Job, text: str) -> None:
        saved = store.checkpoints(self.folder / job.spec.name / "checkpoints")
        step = saved[-1].step if saved else 0
        job.deaths, job.step = (1 if step > job.step else job.deaths + 1), step
        if not is_finished(self.folder / job.spec.name):
            record_error(self.folder / job.spec.name, text)
        self._record_failure(job, text, job.deaths > MAX_WORKER_DEATHS)

    def _record_failure(self, job: Job, text: str, final: bool, wait: float = 0.0) -> None:
        job.error = text
        if final:
            job.state = "failed"
        else:
            self._requeue(job, wait)


def _is_locked(path: Path) -> bool:
    """Whether another process works on a run at this moment."""
    if not path.is_dir():
        return False
    try:
        with RunFolder(path).exclusive():
            return False
    except RunBusyError:
        return True
    except StorageError:
        return False  # the attempt at this run then fails, and is reported as the failure of one run
