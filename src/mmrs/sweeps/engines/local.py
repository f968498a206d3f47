"""The local engine: a few worker processes, each replaced when it dies.

``python -m mmrs.sweeps.engines.local`` is such a worker: it reads runs as lines of JSON from its input and answers each
with a line about how it ended. A worker exits with its sweep: when its input ends, nobody would read the answer, and
another sweep may want the run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from mmrs.sweeps.engines.base import Resources, SweepContext, execute_serialized
from mmrs.sweeps.job import Outcome
from mmrs.sweeps.suites import RunSpec

LOG = ".workers.log"
"""File in the folder of the sweep that holds whatever runs print."""


@dataclass
class _Worker:
    """A process and the run it works on."""

    process: subprocess.Popen[bytes]
    slot: int
    """Index from 0 to jobs - 1; decides which GPU the process sees."""
    spec: RunSpec | None = None
    buffer: bytearray = field(default_factory=bytearray)
    """Bytes of an incomplete answer."""


class LocalEngine:
    """Up to `jobs` processes on this machine.

    Not a pool of the standard library: one killed process breaks those for good, and their workers outlive a killed
    parent. Here runs and answers are lines of JSON on pipes, so the end of a pipe means the end of a process.
    """

    def __init__(self, context: SweepContext, jobs: int, resources: Resources, gpus: Sequence[str] = ()) -> None:
        """Args:
        context: the sweep.
        jobs: number of processes.
        resources: threads and GPU share per run.
        gpus: as CUDA_VISIBLE_DEVICES names them; given to the workers in turn.
        """
        self.context, self.jobs, self.resources, self.gpus = context, jobs, resources, gpus
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._log = (context.folder / LOG).open("ab")

    def available_slots(self) -> int:
        """Number of workers that are idle or could be started."""
        return self.jobs - sum(worker.spec is not None for worker in self._workers)

    def submit(self, spec: RunSpec) -> None:
        """Send a run to an idle worker."""
        worker = next((w for w in self._workers if w.spec is None), None) or self._start()
        worker.spec = spec
        request = {"folder": str(self.context.folder.resolve()), "spec": asdict(spec), "command": self.context.command}
        assert worker.process.stdin is not None
        # If the worker died while idle, `wait` sees the end of its pipe and reports the run as lost.
        with contextlib.suppress(BrokenPipeError):
            worker.process.stdin.write(json.dumps(request).encode() + b"\n")
            worker.process.stdin.flush()

    def wait(self, seconds: float) -> list[Outcome]:
        """Answers of workers, and the runs of those that died."""
        results = (self._read_result(key.data) for key, _ in self._selector.select(seconds))
        return [outcome for outcome in results if outcome]

    def stop(self) -> None:
        """Runs save and stop after their present update."""
        for worker in self._workers:
            if worker.spec is not None:
                worker.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Kill the workers."""
        for worker in self._workers:
            worker.process.kill()
            self._close(worker)
        self._workers.clear()
        self._selector.close()
        self._log.close()

    def _start(self) -> _Worker:
        slot = min(set(range(self.jobs)) - {worker.slot for worker in self._workers})
        process = subprocess.Popen(
            [sys.executable, "-m", "mmrs.sweeps.engines.local"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=worker_environment(slot, self.resources.threads, self.gpus),
            start_new_session=True,  # Ctrl-C in the terminal reaches the sweep alone, which stops its workers
        )
        worker = _Worker(process, slot)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        return worker

    def _read_result(self, worker: _Worker) -> Outcome | None:
        assert worker.process.stdout is not None
        received = os.read(worker.process.stdout.fileno(), 1 << 20)
        if not received:
            return self._reap(worker)
        worker.buffer += received
        if not worker.buffer.endswith(b"\n"):
            return None
        outcome = Outcome(*json.loads(bytes(worker.buffer)))
        worker.buffer.clear()
        worker.spec = None
        return outcome

    def _reap(self, worker: _Worker) -> Outcome | None:
        """Remove a worker that died; its run, if it had one, is lost."""
        code = self._close(worker)
        self._workers.remove(worker)
        if worker.spec is None:
            return None
        reason = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        text = f"The process of this run died: {reason}. What it printed is in {self.context.folder / LOG}.\n"
        return Outcome(worker.spec.name, "lost", text)

    def _close(self, worker: _Worker) -> int:
        """Wait for a worker that ended and close its pipes; returns its exit code."""
        assert worker.process.stdout is not None and worker.process.stdin is not None
        self._selector.unregister(worker.process.stdout)
        code = worker.process.wait()
        worker.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # a run that was never read
            worker.process.stdin.close()
        return code


def worker_environment(slot: int, threads: int, gpus: Sequence[str]) -> dict[str, str]:
    """Environment variables of the process of one slot: as many threads as a run gets, and one of the GPUs."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    visible = {"CUDA_VISIBLE_DEVICES": gpus[slot % len(gpus)]} if gpus else {}
    return {**os.environ, **dict.fromkeys(names, str(threads)), **visible}


def visible_gpus() -> list[str]:
    """The GPUs that torch would see, as CUDA_VISIBLE_DEVICES names them; found without starting CUDA here."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None:
        names = [name.strip() for name in listed.split(",")]
        return list(itertools.takewhile(lambda name: name and not name.startswith("-"), names))  # as CUDA reads it
    return [str(number) for number, _ in enumerate(Path("/proc/driver/nvidia/gpus").glob("*"))]


def claim_stdout() -> TextIO:
    """The standard output of a worker, for answers alone; everything else that is printed goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def worker_main() -> None:
    """Execute runs until the input ends; the main function of a worker process."""
    answers = claim_stdout()
    # A process forked from this one first closes `sys.stdin`, and would wait for whoever reads it.
    requests, sys.stdin = os.fdopen(os.dup(0)), open(os.devnull)  # noqa: PTH123, SIM115 (for good)
    received: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, received), daemon=True).start()
    while True:
        answers.write(json.dumps(execute_serialized(**received.get())) + "\n")


def _receive(requests: TextIO, received: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in requests:
        received.put(json.loads(line))
    os._exit(0)  # at once, whatever the run is doing: a run folder survives a kill


if __name__ == "__main__":
    worker_main()
