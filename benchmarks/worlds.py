"""Speed of the compiled room worlds on one core, beside the plain reference that they equal step for step.

Rates are by processor time, with random actions under SAME_STEP, and include infos and fresh arrays.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.timing import arguments, machine, print_table, write_results
from mmrs.envs.registry import make_envs
from mmrs.envs.rooms.maps import WORLDS

TARGET = 1e6
"""Steps per second on one core, with feature observations."""
NUM_ENVS = (8, 64, 1024)


def compiled_rate(name: str, kind: str, num_envs: int, seconds: float) -> float:
    """Steps per second of the vector environment: the best of five rounds."""
    env = gym.make_vec(f"mmrs/{name}-v0", num_envs=num_envs, obs_type=kind, autoreset_mode="SameStep")
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, env.single_action_space.n, (256, num_envs))
    return max(_rate(env.step, actions, seconds / 5) for _ in range(5)) * num_envs


def reference_rate(name: str, kind: str, seconds: float) -> float:
    """Steps per second of one plain environment, reset by hand."""
    env = gym.make(f"mmrs/{name}-v0", obs_type=kind, disable_env_checker=True).unwrapped
    env.reset(seed=0)

    def step(action: np.ndarray) -> None:
        _, _, terminated, truncated, _ = env.step(int(action[0]))
        if terminated or truncated:
            env.reset()

    actions = np.random.default_rng(0).integers(0, env.action_space.n, (256, 1))
    return max(_rate(step, actions, seconds / 5) for _ in range(5))


def training_microseconds(name: str, seconds: float) -> float:
    """Microseconds per step of eight environments as in the trainer, ends of episodes included."""
    envs = make_envs(f"mmrs/{name}-v0", 8)
    envs.reset(0)
    actions = np.random.default_rng(0).integers(0, envs.action_space.n, (256, 8))
    return 1e6 / max(_rate(envs.step, actions, seconds / 5) for _ in range(5))


def _rate(step: Any, actions: np.ndarray, seconds: float) -> float:
    """Calls per second of processor time."""
    calls, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        for row in actions:
            step(row)
        calls += len(actions)
    return calls / (time.process_time() - began)


def run(quick: bool = False) -> dict[str, Any]:
    """Measure all worlds; returns the content of `benchmarks/results/worlds.json`."""
    seconds = 0.25 if quick else 2.0
    rows, rates = [], {}
    for kind in ("features", "image"):
        for name in WORLDS:
            plain = reference_rate(name, kind, seconds)
            fast = {str(n): compiled_rate(name, kind, n, seconds) for n in NUM_ENVS}
            rates[f"{name} {kind}"] = {"reference": plain, **fast}
            rows.append((name, kind, plain, *fast.values(), fast["8"] / plain, fast["1024"] / plain))
    training = {name: training_microseconds(name, seconds) for name in WORLDS}
    columns = ("world", "observations", "reference", *(f"{n} envs" for n in NUM_ENVS), "times (8)", "times (1024)")
    note = "a trainer's step of 8 takes " + ", ".join(f"{name} {us:.0f} us" for name, us in training.items())
    print_table("Room worlds: steps per second on one core", columns, rows, note)
    slowest = min(
        rate for key, each in rates.items() if key.endswith("features") for n, rate in each.items() if n != "reference"
    )
    met = {"features_steps_per_second": slowest >= TARGET}
    return {
        "machine": machine(), "steps_per_second": rates, "training_step_of_8_us": training,
        "target_steps_per_second": TARGET, "slowest_of_features": slowest, "met": met,
    }  # fmt: skip


if __name__ == "__main__":
    print(write_results("worlds", run(arguments(__doc__ or "").quick)))
