"""How fast this machine is at the cells of a suite: a few real updates of each kind, with every job's place busy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from mmrs.errors import TrainingError
from mmrs.runs.build import build_trainer
from mmrs.runs.config_json import from_json
from mmrs.sweeps.engines.local import environment_of
from mmrs.sweeps.job import CONFIGS, TABLES
from mmrs.sweeps.suites import Cell

Pair = tuple[str, str]
"""Environment and method."""


def pairs_to_measure(cells: Sequence[Cell]) -> list[Pair]:
    """Every method on the first environment, then the first method on the others, most telling first."""
    envs = list(dict.fromkeys(cell.env for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    return [(envs[0], method) for method in methods] + [(env, methods[0]) for env in envs[1:]]


def measure(
    cells: Sequence[Cell], jobs: int, seconds: float, *, gpus: Sequence[str] = (), shared: bool = False
) -> dict[Pair, float]:
    """Seconds that a whole cell takes, for as many pairs as the time allows.

    Args:
        cells: of the suite, with threads and device set.
        jobs: processes that measure side by side, each the same: a busy machine is slower than an idle one.
        seconds: to spend; each method gets at least one counted update, so it may take longer.
        gpus: as CUDA_VISIBLE_DEVICES names them; given to the processes in turn, as in a sweep.
        shared: count the processor's time rather than the clock's.
    """
    first = {(cell.env, cell.method): cell for cell in reversed(cells)}
    wanted = [first[pair] for pair in pairs_to_measure(cells)]
    task = json.dumps({"cells": [asdict(cell) for cell in wanted], "seconds": seconds, "shared": shared}).encode()
    command = [sys.executable, "-m", "mmrs.sweeps.speed_probe"]
    threads = int(wanted[0].config.get("threads", 1))
    processes = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment_of(place, threads, gpus)
        )
        for place in range(jobs)
    ]
    # All get their task before any is read: the pipes are emptied at once by the reader at the other end.
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(task)
        process.stdin.close()
    answers = []
    for process in processes:
        assert process.stdout is not None
        answers.append(json.loads(process.stdout.read() or "null"))
        process.stdout.close()
        if process.wait():
            raise TrainingError("measuring failed; the reason is printed above. Try one run of the suite by itself.")
    return _mean([{(env, method): value for env, method, value in answer} for answer in answers])


def _mean(answers: list[dict[Pair, float]]) -> dict[Pair, float]:
    common = [pair for pair in answers[0] if all(pair in answer for answer in answers)]
    return {pair: sum(answer[pair] for answer in answers) / len(answers) for pair in common}


def _probe(cells: Sequence[Cell], seconds: float, clock: Callable[[], float]) -> list[tuple[str, str, float]]:
    until = time.perf_counter() + seconds
    found: list[tuple[str, str, float]] = []
    for place, cell in enumerate(cells):
        left = until - time.perf_counter()
        if left <= 0 and cell.env != cells[0].env:  # methods differ more than environments: none is left out
            break
        found.append((cell.env, cell.method, _seconds_of(cell, left / (len(cells) - place), clock)))
    return found


def _seconds_of(cell: Cell, share: float, clock: Callable[[], float]) -> float:
    """Of the whole cell, from as many updates as fit into `share` seconds, at least one, after one to warm up."""
    config: Any = from_json(CONFIGS[cell.kind], cell.config, cell.name)
    if cell.kind != "train":
        TABLES[cell.kind](config)  # the first one compiles
        began = clock()
        TABLES[cell.kind](config)
        return clock() - began
    trainer = build_trainer(replace(config, steps=10**9))
    end, times = time.perf_counter() + share, []
    try:
        for _ in trainer:
            times.append(clock())
            if len(times) > 1 and time.perf_counter() >= end:
                break
    finally:
        trainer.collector.close()
    return float((times[-1] - times[0]) / (len(times) - 1) * config.steps / trainer.steps_per_update)


def main() -> None:
    """Measure what the input asks for; a process of `measure`."""
    task: dict[str, Any] = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints must not talk into the answer
    clock = time.process_time if task["shared"] else time.perf_counter
    json.dump(_probe([Cell(**cell) for cell in task["cells"]], task["seconds"], clock), answers)
    answers.flush()


if __name__ == "__main__":
    main()
