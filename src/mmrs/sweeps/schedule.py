"""The loop of a sweep: start what is left, take in how each try ended, try again within bounds."""

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
from mmrs.sweeps.suites import Cell, in_order

LOSSES = 10
"""Deaths of a run's process, without a new checkpoint between them, beyond which the run counts as failed."""
UNSEEN_WAIT = 15.0
"""Seconds until a run that ended elsewhere is looked for again: network disks show new files late."""
BUSY_WAIT = 2.0
"""Seconds before a run that another process holds is looked at again."""
State = Literal["waiting", "running", "finished", "failed"]


@dataclass
class Job:
    """A cell and how it fares."""

    cell: Cell
    state: State = "waiting"
    failures: int = 0
    losses: int = 0
    step: int = 0
    """Of the newest checkpoint when its process last died."""
    not_before: float = 0.0
    error: str = ""


class Schedule:
    """All jobs of a sweep; `run` brings every one to `finished` or `failed`."""

    def __init__(self, folder: Path, cells: Iterable[Cell], retries: int) -> None:
        """Args:
        folder: of the sweep.
        cells: to bring to their ends.
        retries: how often a run that raised is tried again.
        """
        self.folder, self.retries = folder, retries
        self.jobs = {cell.name: Job(cell) for cell in cells}
        for job in self.jobs.values():
            if is_finished(folder / job.cell.name):
                job.state = "finished"
        self.skipped = sum(job.state == "finished" for job in self.jobs.values())
        ordered = (self.jobs[cell.name] for cell in in_order(job.cell for job in self.jobs.values()))
        self._waiting = deque(job for job in ordered if job.state == "waiting")

    def counts(self) -> Counter[State]:
        """Jobs by state."""
        return Counter(job.state for job in self.jobs.values())

    def run(self, engine: Engine, stopping: Callable[[], bool], tick: Callable[[], None]) -> None:
        """Work until nothing is left, or until `stopping` and all that ran has saved.

        Args:
            engine: where the runs are made.
            stopping: whether to stop, asked all the time.
            tick: called a few times a second, to show where things are.
        """
        asked = False
        while self._waiting or self.running():
            if stopping():
                if not asked:
                    engine.stop()
                asked = True
                if not self.running():
                    break
            else:
                self._fill(engine)
            for outcome in engine.wait(0.25):
                self._take(outcome, asked)
            tick()

    def running(self) -> list[Job]:
        """Jobs that an engine has in hand."""
        return [job for job in self.jobs.values() if job.state == "running"]

    def _fill(self, engine: Engine) -> None:
        for _ in range(min(engine.free(), len(self._waiting))):
            job = self._next()
            if job is None:
                return
            job.state = "running"
            engine.submit(job.cell)

    def _next(self) -> Job | None:
        """The first waiting job whose time has come; those that others finished meanwhile are ticked off."""
        for _ in range(len(self._waiting)):
            job = self._waiting.popleft()
            path = self.folder / job.cell.name
            if is_finished(path):
                job.state = "finished"
            elif job.not_before > time.monotonic():
                self._waiting.append(job)
            elif _held(path):
                self._again(job, BUSY_WAIT)
            else:
                return job
        return None

    def _again(self, job: Job, seconds: float) -> None:
        job.state, job.not_before = "waiting", time.monotonic() + seconds
        self._waiting.append(job)

    def _take(self, outcome: Outcome, stopping: bool) -> None:
        job = self.jobs[outcome.name]
        path = self.folder / job.cell.name
        if outcome.kind == "finished" and is_finished(path):
            job.state, job.error = "finished", ""
        elif outcome.kind == "finished":
            job.losses += 1
            text = f"The run says that it finished, but {path} does not. Do all machines see the same folder?\n"
            self._failed(job, text, job.losses > LOSSES, UNSEEN_WAIT)
        elif outcome.kind in ("busy", "stopped") or stopping:
            self._again(job, BUSY_WAIT)
        elif outcome.kind == "lost":
            self._lost(job, outcome.text)
        else:
            job.failures += 1
            self._failed(job, outcome.text, job.failures > self.retries)

    def _lost(self, job: Job, text: str) -> None:
        saved = store.checkpoints(self.folder / job.cell.name / "checkpoints")
        step = saved[-1].step if saved else 0
        job.losses, job.step = (1 if step > job.step else job.losses + 1), step
        if not is_finished(self.folder / job.cell.name):
            record_error(self.folder / job.cell.name, text)
        self._failed(job, text, job.losses > LOSSES)

    def _failed(self, job: Job, text: str, for_good: bool, wait: float = 0.0) -> None:
        job.error = text
        if for_good:
            job.state = "failed"
        else:
            self._again(job, wait)


def _held(path: Path) -> bool:
    """Whether another process works on a run at this moment."""
    if not path.is_dir():
        return False
    try:
        with RunFolder(path).exclusive():
            return False
    except RunBusyError:
        return True
    except StorageError:
        return False  # then the try at it fails, and is told as that of one run
