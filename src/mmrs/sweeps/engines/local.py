"""The local engine: a few worker processes, each replaced when it dies."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mmrs.sweeps.engines.base import Resources, Task
from mmrs.sweeps.job import Outcome
from mmrs.sweeps.suites import Cell

LOG = ".workers.log"
"""In the folder of the sweep: whatever runs print."""


@dataclass
class _Worker:
    """A process and the cell it works on."""

    process: subprocess.Popen[bytes]
    place: int
    """Decides which GPU it sees."""
    cell: Cell | None = None
    heard: bytearray = field(default_factory=bytearray)
    """Of the answer so far."""


class LocalEngine:
    """Up to `jobs` processes on this machine.

    Not a pool of the standard library: one killed process breaks those for good, and their workers outlive a killed
    parent. Here cells and answers are lines of JSON on pipes, so an end of a pipe is an end of a process.
    """

    def __init__(self, task: Task, jobs: int, resources: Resources, gpus: Sequence[str] = ()) -> None:
        """Args:
        task: the sweep.
        jobs: processes.
        resources: of each.
        gpus: as CUDA_VISIBLE_DEVICES names them; given to the workers in turn.
        """
        self.task, self.jobs, self.resources, self.gpus = task, jobs, resources, gpus
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._log = (task.folder / LOG).open("ab")

    def free(self) -> int:
        """Workers that are idle or could be started."""
        return self.jobs - sum(worker.cell is not None for worker in self._workers)

    def submit(self, cell: Cell) -> None:
        """Give a cell to an idle worker."""
        worker = next((w for w in self._workers if w.cell is None), None) or self._start()
        worker.cell = cell
        job = {"folder": str(self.task.folder.resolve()), "cell": asdict(cell), "command": self.task.command}
        assert worker.process.stdin is not None
        # If it died while idle, `wait` finds its answers ended and reports the cell as lost.
        with contextlib.suppress(BrokenPipeError):
            worker.process.stdin.write(json.dumps(job).encode() + b"\n")
            worker.process.stdin.flush()

    def wait(self, seconds: float) -> list[Outcome]:
        """Answers of workers, and the cells of those that died."""
        outcomes = []
        for key, _ in self._selector.select(seconds):
            outcome = self._hear(key.data)
            if outcome:
                outcomes.append(outcome)
        return outcomes

    def stop(self) -> None:
        """Runs save and stop after their present update."""
        for worker in self._workers:
            if worker.cell is not None:
                worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Kill what still runs."""
        for worker in self._workers:
            worker.process.kill()
            self._forget(worker)
        self._workers.clear()
        self._selector.close()
        self._log.close()

    def _start(self) -> _Worker:
        place = min(set(range(self.jobs)) - {worker.place for worker in self._workers})
        process = subprocess.Popen(
            [sys.executable, "-m", "mmrs.sweeps.engines.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment_of(place, self.resources.threads, self.gpus),
            start_new_session=True,  # Ctrl-C in the terminal is for the sweep, which passes on what is right
        )
        worker = _Worker(process, place)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        return worker

    def _hear(self, worker: _Worker) -> Outcome | None:
        assert worker.process.stdout is not None
        said = os.read(worker.process.stdout.fileno(), 1 << 20)
        if not said:
            return self._bury(worker)
        worker.heard += said
        if not worker.heard.endswith(b"\n"):
            return None
        outcome = Outcome(*json.loads(bytes(worker.heard)))
        worker.heard.clear()
        worker.cell = None
        return outcome

    def _bury(self, worker: _Worker) -> Outcome | None:
        code = self._forget(worker)
        self._workers.remove(worker)
        if worker.cell is None:
            return None
        reason = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        text = f"The process of this run died: {reason}. What it printed is in {self.task.folder / LOG}.\n"
        return Outcome(worker.cell.name, "lost", text)

    def _forget(self, worker: _Worker) -> int:
        assert worker.process.stdout is not None and worker.process.stdin is not None
        self._selector.unregister(worker.process.stdout)
        code = worker.process.wait()
        worker.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # a cell that was never read
            worker.process.stdin.close()
        return code


def environment_of(place: int, threads: int, gpus: Sequence[str]) -> dict[str, str]:
    """Of the process at one of the places: as many threads as a run gets, and one of the GPUs."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    visible = {"CUDA_VISIBLE_DEVICES": gpus[place % len(gpus)]} if gpus else {}
    return {**os.environ, **dict.fromkeys(names, str(threads)), **visible}


def visible_gpus() -> list[str]:
    """The GPUs that torch would see, as CUDA_VISIBLE_DEVICES names them; found without starting CUDA here."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        names = [name.strip() for name in listed.split(",")]
        return list(itertools.takewhile(lambda name: name and not name.startswith("-"), names))  # as CUDA reads it
    return [str(number) for number, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]
