"""The trainer on a GPU: PPO + MMRS compared with environments that only step and with a plain eager PPO.

All alternate in turns of a second or two in one process, and rates are compared turn by turn, because other work on
the machine slows all of them. Then eight such processes run at the same time. Run it with
`python -m benchmarks.trainer_gpu` on a machine with a GPU; without one, nothing is measured.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from ale_py.vector_env import AtariVectorEnv

from benchmarks.eager_ppo import EagerPPO
from benchmarks.timing import machine, print_table, write_results
from mmrs.envs.registry import make_envs
from mmrs.runs.build import build_trainer
from mmrs.runs.presets import default_config

GAME, ROM, ENVS, STEPS = "ALE/Alien-v5", "alien", 8, 128
ROLLOUT = ENVS * STEPS
WARM_UP = 8
"""Rollouts before the clock starts: the first ones capture graphs."""
KINDS = {"raw": "stepping only", "mmrs": "PPO + MMRS", "ppo": "PPO", "eager": "eager PPO, no bonus"}
PACKED = {
    "raw:2": "stepping only, 2 threads each",
    "raw:8": "stepping only, 8 threads each",
    "mmrs:3": "PPO + MMRS, 3 emulator threads each",
    "mmrs:4": "PPO + MMRS, 4 emulator threads each",
}


def raw(threads: int | None) -> Iterator[None]:
    """Only stepping: `AtariVectorEnv` itself, with random actions."""
    envs = AtariVectorEnv(
        ROM, ENVS, img_height=84, img_width=84, grayscale=True, stack_num=4, frameskip=4, maxpool=True,
        autoreset_mode="SameStep", life_loss_info=True, reward_clipping=False, num_threads=threads or 0,
    )  # fmt: skip
    envs.reset(seed=np.arange(ENVS))
    random = np.random.default_rng(0)
    while True:
        for actions in random.integers(envs.single_action_space.n, size=(STEPS, ENVS)):
            envs.step(actions)
        yield


def trained(threads: int | None, bonus: str = "mmrs") -> Iterator[None]:
    """The trainer itself."""
    config = default_config(GAME, bonus)
    config = replace(config, device="cuda", env=replace(config.env, threads=threads))
    for _ in build_trainer(config):
        yield


def trained_plain(threads: int | None) -> Iterator[None]:
    """The trainer without a bonus."""
    return trained(threads, "none")


def eager(threads: int | None) -> Iterator[None]:
    """The plain loop, without any bonus."""
    learner = EagerPPO(make_envs(GAME, ENVS, threads=threads), "cuda")
    while True:
        learner.iterate()
        yield


@contextmanager
def shared_gpu() -> Iterator[None]:
    """NVIDIA's multi-process service, if installed: without it, processes alternate on the GPU."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        settings = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        os.environ.update(settings)
        subprocess.run([control, "-d"], check=True)
        try:
            yield
        finally:
            subprocess.run([control], input="quit\n", text=True, check=False)
            for name in settings:
                del os.environ[name]


def turns(kinds: list[str], rounds: int, seconds: float, start: float) -> dict[str, list[float]]:
    """Agent steps per second of each job in each round, after a warm-up, turn by turn from the time `start` on.

    A kind may include its number of emulator threads: "mmrs:3".
    """
    torch.set_num_threads(1)
    makers = {"raw": raw, "eager": eager, "ppo": trained_plain, "mmrs": trained}
    named = {kind: kind.partition(":") for kind in kinds}
    jobs = {kind: makers[name](int(threads) if threads else None) for kind, (name, _, threads) in named.items()}
    for job in jobs.values():
        for _ in range(WARM_UP):
            next(job)
    start = max(start, time.time())
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(rounds * len(kinds)):
        kind = kinds[number % len(kinds)]
        torch.cuda.synchronize()
        time.sleep(max(0.0, start + number * seconds - time.time()))
        found[kind].append(rate(jobs[kind], start + (number + 0.9) * seconds))
    return found


def rate(job: Iterator[None], until: float) -> float:
    """Agent steps per second, in whole rollouts, up to the first that ends after `until`."""
    began, rollouts = time.time(), 0
    while rollouts == 0 or time.time() < until:
        next(job)
        rollouts += 1
    torch.cuda.synchronize()
    return rollouts * ROLLOUT / (time.time() - began)


def in_parallel(kinds: list[str], processes: int, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Summed rates of processes that run the same turns at the same time."""
    command = [sys.executable, "-m", "benchmarks.trainer_gpu", "--worker", *kinds]
    command += ["--rounds", str(rounds), "--seconds", str(seconds)]
    if processes > 1:  # all start when the last one has warmed up
        command += ["--start", str(time.time() + 60.0)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    each = [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]
    return {kind: np.sum([found[kind] for found in each], 0).tolist() for kind in kinds}


def compared(found: dict[str, list[float]], names: dict[str, str], base: str) -> list[list[str]]:
    """Rows of a table: median rate, and median and quartiles over rounds of the ratio to the base of that round."""
    rows = []
    for kind, rates in found.items():
        low, middle, high = np.quantile(np.divide(rates, found[base]), (0.25, 0.5, 0.75))
        rows.append([names[kind], f"{np.median(rates):,.0f}", f"{middle:.2f} ({low:.2f} to {high:.2f})"])
    return rows


def run(rounds: int = 12, seconds: float = 1.5, processes: int = 8) -> dict[str, Any] | None:
    """Measure, print and return the table."""
    if not torch.cuda.is_available():
        print("trainer_gpu: no GPU here, nothing measured.")
        return None
    alone = in_parallel(list(KINDS), 1, rounds, seconds)
    columns = ["what", "steps/s", "of stepping only: median (quartiles) over rounds"]
    print_table(f"One process on {GAME}, {rounds} rounds", columns, compared(alone, KINDS, "raw"))
    over_eager = float(np.median(np.divide(alone["mmrs"], alone["eager"])))
    print(f"PPO + MMRS is {over_eager:.1f} times as fast as the eager PPO without a bonus.")
    with shared_gpu():
        together = in_parallel(list(PACKED), processes, max(3, rounds // 2), 4 * seconds)
    fastest = max(("raw:2", "raw:8"), key=lambda kind: float(np.median(together[kind])))
    print_table(f"{processes} processes together", columns, compared(together, PACKED, fastest))
    return {"machine": machine("cuda"), "game": GAME, "one_process": alone, f"{processes}_processes": together}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs="*")
    parser.add_argument("--start", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(turns(options.worker, options.rounds, options.seconds, options.start)))
    else:
        measured = run(options.rounds, options.seconds, options.processes)
        if measured:
            print(write_results("trainer_gpu", measured))
    sys.stdout.flush()
    os._exit(0)  # the emulator threads of an interrupted job would keep the process from ending
