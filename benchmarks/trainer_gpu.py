"""The trainer on a GPU: PPO + MMRS beside environments that only step and a plain eager PPO, in one run.

Run it with `python -m benchmarks.trainer_gpu` on a machine with a GPU; elsewhere it says that there is none.
"""

import argparse
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

from benchmarks.eager_ppo import EagerPPO
from benchmarks.timing import machine, print_table, write_results
from mmrs.envs.make import make_envs
from mmrs.experiments.build import build_trainer
from mmrs.experiments.presets import default_config

GAME, ENVS, STEPS = "ALE/Alien-v5", 8, 128
ROLLOUT = ENVS * STEPS


def raw(threads: int | None) -> Iterator[None]:
    """Only stepping, with random actions."""
    envs = make_envs(GAME, ENVS, threads=threads)
    envs.reset(0)
    random = np.random.default_rng(0)
    while True:
        for actions in random.integers(envs.action_space.n, size=(STEPS, ENVS)):
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


def rate(job: Iterator[None], seconds: float, warm_up: int = 8) -> float:
    """Agent steps a second over at least `seconds`, warmed up."""
    for _ in range(warm_up):
        next(job)
    torch.cuda.synchronize()
    began, rollouts = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        next(job)
        rollouts += 1
    torch.cuda.synchronize()
    return rollouts * ROLLOUT / (time.perf_counter() - began)


@contextmanager
def shared_gpu() -> Iterator[None]:
    """NVIDIA's multi-process service, where it is installed: without it, processes take turns on the GPU."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        os.environ.update(places)
        subprocess.run([control, "-d"], check=True)
        try:
            yield
        finally:
            subprocess.run([control], input="quit\n", text=True, check=False)
            for name in places:
                del os.environ[name]


def packed(kind: str, processes: int, seconds: float) -> float:
    """Summed rate of processes side by side: idle emulator threads of one job must not slow another."""
    command = [sys.executable, "-m", "benchmarks.trainer_gpu", "--worker", kind, "--seconds", str(seconds)]
    command += ["--threads", "2"] if processes > 1 else []
    began = time.time()
    command += ["--start", str(began + (25.0 if processes > 1 else 0.0))]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(float(process.communicate()[0].split()[-1]) for process in running)


def worker(kind: str, seconds: float, threads: int | None, start: float) -> float:
    """One process's rate, once warm and not before `start`, so that several measure the same seconds."""
    torch.set_num_threads(1)
    job = {"raw": raw, "eager": eager, "ppo": trained_plain, "mmrs": trained}[kind](threads)
    rate(job, 0.0, warm_up=8)
    time.sleep(max(0.0, start - time.time()))
    return rate(job, seconds, warm_up=0)


def run(seconds: float = 4.0, rounds: int = 3, processes: int = 8) -> dict[str, Any] | None:
    """Measure, print and return the table."""
    if not torch.cuda.is_available():
        print("trainer_gpu: no GPU here, nothing measured.")
        return None
    kinds = {"raw": "stepping only", "mmrs": "PPO + MMRS", "ppo": "PPO", "eager": "eager PPO, no bonus"}
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            found[kind].append(packed(kind, 1, seconds))
    rates = {kinds[kind]: float(np.median(values)) for kind, values in found.items()}
    if processes > 1:
        with shared_gpu():
            rates[f"{processes} x stepping only"] = packed("raw", processes, 2 * seconds)
            rates[f"{processes} x PPO + MMRS"] = packed("mmrs", processes, 2 * seconds)
    rows = []
    for name, value in rates.items():
        base = rates[f"{processes} x stepping only"] if name.startswith(f"{processes} x") else rates["stepping only"]
        rows.append([name, f"{value:,.0f}", f"{value / base:.2f}"])
    print_table("Steps a second on " + GAME, ["what", "steps/s", "of stepping only"], rows)
    return {"machine": machine("cuda"), "game": GAME, "steps_per_second": rates, "rounds": found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--start", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    if options.worker:
        print(worker(options.worker, options.seconds, options.threads, options.start), flush=True)
        os._exit(0)  # the emulator threads of a job cut off in the middle would keep the process waiting
    else:
        measured = run(options.seconds, options.rounds, options.processes)
        if measured:
            print(write_results("trainer_gpu", measured))
