"""Memory over 1,000 rollouts: what a reward remembers, and what the process holds, must stop growing.

Run it with `make bench`, or `python -m benchmarks.memory [--quick]`. The rollouts are one long episode, the worst case
for episodic memories: nothing is ever forgotten because an episode ended.
"""

import gc
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import mmrs
from benchmarks.timing import arguments, print_table, threads, write_results
from mmrs import IntrinsicReward, Rollout
from mmrs.errors import UnsupportedSpaceError
from mmrs.rewards import REWARDS

STEPS, ENVS = 16, 4
FEATURES, STATES = 8, 64
VECTORS = gym.spaces.Box(-np.inf, np.inf, (FEATURES,), np.float32)
STATE_NUMBERS = gym.spaces.Discrete(STATES)
ACTIONS = gym.spaces.Discrete(3)


@dataclass(frozen=True)
class Held:
    """What is held at one moment."""

    rollouts: int
    resident_bytes: int
    """Of the process; 0 where the system does not tell."""
    memory_bytes: int
    """Of all tensors in the reward's `memory`."""
    module_bytes: int
    """Of all tensors in the reward's `state_dict()`, the optimiser's included."""
    objects: int
    """Python objects that the garbage collector tracks."""


def make_reward(name: str, **options: Any) -> IntrinsicReward:
    """A registered reward on vectors, or on numbered states where it counts those alone."""
    try:
        return mmrs.make(name, VECTORS, ACTIONS, **options)
    except UnsupportedSpaceError:
        return mmrs.make(name, STATE_NUMBERS, ACTIONS, **options)


def endless_rollout(bonus: IntrinsicReward, rng: np.random.Generator) -> Rollout:
    """T=16, N=4 steps of a walk that never ends and never comes back to quite the same vector."""
    never = np.zeros((STEPS, ENVS), bool)
    if isinstance(bonus.observation_space, gym.spaces.Discrete):
        obs = rng.integers(0, STATES, (STEPS + 1, ENVS))
    else:
        obs = rng.standard_normal((STEPS + 1, ENVS, FEATURES), np.float32)
    return Rollout(obs=obs, actions=rng.integers(0, 3, (STEPS, ENVS)), terminated=never, truncated=never)


def watch_memory(bonus: IntrinsicReward, rollouts: int = 1000, readings: int = 5) -> list[Held]:
    """Run a reward through `rollouts` rollouts, compute and update each; what was held, at even intervals.

    The first reading comes after the first interval, when buffers and caches have reached their size.
    """
    rng = np.random.default_rng(0)
    memory: dict[str, Any] | None = None
    every = rollouts // readings
    held = []
    for number in range(1, rollouts + 1):
        rollout = endless_rollout(bonus, rng)
        _, memory = bonus.compute(rollout, memory)
        bonus.update(rollout)
        if number % every == 0:
            held.append(_held(number, bonus, memory))
    return held


def _held(number: int, bonus: IntrinsicReward, memory: Mapping[str, Any]) -> Held:
    gc.collect()
    return Held(number, resident_bytes(), tensor_bytes(memory), tensor_bytes(bonus.state_dict()), len(gc.get_objects()))


def tensor_bytes(value: object) -> int:
    """Bytes of all tensors in nested dictionaries and lists."""
    if isinstance(value, torch.Tensor):
        # The storage, not the view: a slice keeps all of what it was cut from.
        return value.untyped_storage().nbytes()
    if isinstance(value, Mapping):
        return sum(tensor_bytes(item) for item in value.values())
    if isinstance(value, list | tuple):
        return sum(tensor_bytes(item) for item in value)
    return 0


def resident_bytes() -> int:
    """Memory of this process in RAM (Linux; 0 elsewhere)."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0


def run(quick: bool = False) -> dict[str, Any]:
    """Watch every registered reward, print the table, return what goes into the JSON."""
    rollouts = 200 if quick else 1000
    with threads(1):  # the tensors are too small to share
        readings = {name: watch_memory(make_reward(name), rollouts) for name in REWARDS}
    rows = []
    for name, held in readings.items():
        first, last = held[0], held[-1]
        resident = [reading.resident_bytes / 2**20 for reading in (first, last)]
        kept = [(reading.memory_bytes + reading.module_bytes) / 1024 for reading in (first, last)]
        rows.append([name, *resident, resident[1] - resident[0], *kept, last.objects - first.objects])
    print_table(
        f"held after {rollouts // 5} and after {rollouts} rollouts of T={STEPS}, N={ENVS}, one episode without end",
        ["reward", "RSS, MiB", "then", "change", "memory + state, KiB", "then", "more objects"],
        rows,
    )
    return {
        "rollouts": {"number": rollouts, "steps": STEPS, "envs": ENVS},
        "held": {name: [asdict(reading) for reading in held] for name, held in readings.items()},
    }


if __name__ == "__main__":
    options = arguments(__doc__.partition("\n")[0])
    print(write_results("memory", run(options.quick)))
