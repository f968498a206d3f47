"""Throughput of a sweep with two jobs compared with one job; both are measured in turns, in one run.

Run it with `python -m benchmarks.sweep` on a machine that does nothing else. There are two ratios. The one
by wall-clock time is wrong, in either direction, on a busy machine. The one by the processor time of the workers shows
how much two runs slow each other down (caches, memory, clock rates), and holds on a busy machine too.
"""

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.timing import arguments, machine, print_table, write_results
from mmrs.sweeps.engines.base import Resources, SweepContext
from mmrs.sweeps.engines.local import LocalEngine
from mmrs.sweeps.scheduler import Scheduler
from mmrs.sweeps.suites import SUITES, RunSpec, expand_suite

GAME, METHOD = "CartPole-v1", "rnd"
TARGET = 1.8
_TICK = os.sysconf("SC_CLK_TCK")


def toy(seeds: int, steps: int) -> list[RunSpec]:
    """Small runs with checkpoints as rare as in real ones: else they wait for the disk more than they compute."""
    specs = expand_suite(SUITES["smoke"], seeds=seeds, games=[GAME], methods=[METHOD], steps=steps)
    return [replace(spec, config={**spec.config, "checkpoint_every": 50}) for spec in specs]


def processor_seconds() -> float:
    """Processor time of the workers, which are the children of this process."""
    own = os.getpid()
    pids = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / _TICK


def sweep(jobs: int, runs: int, steps: int) -> tuple[float, float]:
    """Steps per second, and steps per second of processor time, once the workers have started."""
    with tempfile.TemporaryDirectory() as scratch:
        warm, timed = Path(scratch, "warm"), Path(scratch, "timed")
        for folder in (warm, timed):
            folder.mkdir()
        engine = LocalEngine(SweepContext(timed, "benchmark"), jobs, Resources(1, 0.0))
        try:
            Scheduler(timed, toy(jobs, 512), 0).run(engine, lambda: False, lambda: None)
            for path in timed.glob("*/"):
                path.rename(warm / path.name)
            began, used = time.perf_counter(), processor_seconds()
            scheduler = Scheduler(timed, toy(runs, steps), 0)
            scheduler.run(engine, lambda: False, lambda: None)
            seconds, used = time.perf_counter() - began, processor_seconds() - used
        finally:
            engine.close()
        assert scheduler.counts()["finished"] == runs
    return runs * steps / seconds, runs * steps / used


def run(quick: bool = False) -> dict[str, Any]:
    """Measure; returns what `benchmarks/results/sweep.json` holds."""
    rounds, steps = (1, 4096) if quick else (3, 12800)
    load = os.getloadavg()[0]
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(rounds):
        for jobs, each in found.items():
            each.append(sweep(jobs, 4, steps))
    clock, processor = ({n: statistics.median(x[i] for x in each) for n, each in found.items()} for i in (0, 1))
    ratio, kept = clock[2] / clock[1], processor[2] / processor[1]
    rows = [(f"{n} job{'s' * (n > 1)}", clock[n], processor[n]) for n in found]
    note = (
        f"clock: {ratio:.2f} times one job; processor: {2 * kept:.2f} if both cores are free; load before: {load:.1f}"
    )
    print_table(f"Four runs of {steps} steps", ("", "steps/s", "steps/s of processor"), rows, note)
    return {
        "machine": machine(), "load_before": load, "rounds": rounds, "steps_a_run": steps,
        "each_round": found, "steps_per_second": clock, "steps_per_processor_second": processor,
        "ratio_by_clock": ratio, "ratio_by_processor": 2 * kept, "target": TARGET, "met": {"ratio": ratio >= TARGET},
    }  # fmt: skip


if __name__ == "__main__":
    print(write_results("sweep", run(arguments(__doc__ or "").quick)))
