"""Speed of this machine on the runs of a suite: a few real updates per kind of run, with every slot busy."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from mmrs.errors import TrainingError
from mmrs.runs.build import build_trainer
from mmrs.runs.config_json import from_json
from mmrs.sweeps.engines.local import claim_stdout, worker_environment
from mmrs.sweeps.job import CONFIGS, TABLES
from mmrs.sweeps.suites import RunSpec

Pair = tuple[str, str]
"""Environment and method."""


def pairs_to_measure(specs: Sequence[RunSpec]) -> list[Pair]:
    """Every method on the first environment, then the first method on the others; the most informative first."""
    envs = list(dict.fromkeys(spec.env for spec in specs))
    methods = list(dict.fromkeys(spec.method for spec in specs))
    return [(envs[0], method) for method in methods] + [(env, methods[0]) for env in envs[1:]]


def measure(
    specs: Sequence[RunSpec], jobs: int, seconds: float, *, gpus: Sequence[str] = (), shared: bool = False
) -> dict[Pair, float]:
    """Seconds that a whole run takes, for as many pairs as the time allows.

    Args:
        specs: runs of the suite, with threads and device set.
        jobs: processes that measure the same at the same time, since a busy machine is slower than an idle one.
        seconds: time to spend; each method gets at least one counted update, so it may take longer.
        gpus: as CUDA_VISIBLE_DEVICES names them; given to the processes in turn, as in a sweep.
        shared: count processor time instead of wall-clock time.
    """
    first = {(spec.env, spec.method): spec for spec in reversed(specs)}
    wanted = [first[pair] for pair in pairs_to_measure(specs)]
    task = json.dumps({"specs": [asdict(spec) for spec in wanted], "seconds": seconds, "shared": shared}).encode()
    command = [sys.executable, "-m", "mmrs.sweeps.speed_probe"]
    threads = int(wanted[0].config.get("threads", 1))
    processes = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=worker_environment(slot, threads, gpus)
        )
        for slot in range(jobs)
    ]
    # All get their task before any answer is read; each process empties its pipe at once.
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


def _probe(specs: Sequence[RunSpec], seconds: float, clock: Callable[[], float]) -> list[tuple[str, str, float]]:
    until = time.perf_counter() + seconds
    found: list[tuple[str, str, float]] = []
    for index, spec in enumerate(specs):
        left = until - time.perf_counter()
        if left <= 0 and spec.env != specs[0].env:  # methods differ more than environments: none is left out
            break
        found.append((spec.env, spec.method, _seconds_of(spec, left / (len(specs) - index), clock)))
    return found


def _seconds_of(spec: RunSpec, share: float, clock: Callable[[], float]) -> float:
    """Seconds of the whole run, from the updates that fit into `share` seconds: one warm-up, then at least one."""
    config: Any = from_json(CONFIGS[spec.kind], spec.config, spec.name)
    if spec.kind != "train":
        TABLES[spec.kind](config)  # the first one compiles
        began = clock()
        TABLES[spec.kind](config)
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
    """Measure the runs named on the standard input; the main function of a process of `measure`."""
    task: dict[str, Any] = json.load(sys.stdin)
    answers = claim_stdout()
    clock = time.process_time if task["shared"] else time.perf_counter
    json.dump(_probe([RunSpec(**spec) for spec in task["specs"]], task["seconds"], clock), answers)
    answers.flush()


if __name__ == "__main__":
    main()
