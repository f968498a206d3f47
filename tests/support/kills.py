"""Kill a process that saves all the time with SIGKILL, again and again, and check what it leaves.

``python -m tests.support.kills 200`` runs the long form and prints the counts. The processes are forked from this one,
which has torch loaded already: starting each afresh would take seconds, and the kills would mostly hit imports.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tests.support import checkpoint_saver as saver

from mmrs.errors import StorageError
from mmrs.runs.metrics_log import read_metrics
from mmrs.storage import checkpoint as store


@dataclass
class Tally:
    """What the kills left behind."""

    kills: int = 0
    unreadable: int = 0
    lost: int = 0
    """Checkpoints that were reported safe and were not found again."""
    mixed: int = 0
    """Checkpoints or metrics that were loaded and hold two states at once."""
    leftovers: int = 0
    """Kills that hit inside a save: a half-built checkpoint lay there."""
    damaged: int = 0
    """Kills after which the newest checkpoint could not be used."""
    steps: int = 0


def start(folder: Path) -> tuple[int, int]:
    """A process that saves to `folder`, and the pipe on which it reports each step that is safe."""
    listening, speaking = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(listening)
        os.dup2(speaking, 1)
        try:
            saver.main(folder)
        finally:
            os._exit(1)
    os.close(speaking)
    return child, listening


def kill_many(kills: int, folder: Path, seed: int = 0) -> Tally:
    """Kill a saving process at random times, each continuing where the last one was killed."""
    rng, tally, reported = random.Random(seed), Tally(), 0
    for _ in range(kills):
        child, listening = start(folder)
        with os.fdopen(listening) as lines:
            said = lines.readline()  # at least one save is behind it
            time.sleep(rng.uniform(0, 0.1))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            said += lines.read()
        reported = max(reported, *map(int, said.split()))
        inspect(folder, reported, tally)
    return tally


def inspect(folder: Path, reported: int, tally: Tally) -> None:
    """Load what is there as a resuming run would."""
    checkpoints = folder / "checkpoints"
    tally.kills += 1
    tally.leftovers += any(checkpoints.glob(".part-*"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            step, state = store.load(checkpoints)
        except StorageError:
            tally.unreadable += 1
            return
    tally.damaged += bool(caught)
    tally.lost += step < reported
    rows = [row["step"] for row in read_metrics(folder / "metrics.jsonl").rows]
    tally.mixed += not saver.consistent(step, state) or rows[:step] != list(range(1, step + 1))
    tally.steps = step


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        tally = kill_many(int(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else place))
    sys.stdout.write(f"{json.dumps(asdict(tally))}\n")
