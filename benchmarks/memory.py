"""Memory over 1,000 rollouts: the memory of a reward and of the process must stop growing.

Run it with `make bench`, or `python -m benchmarks.memory [--quick]`. The rollouts are one long episode, which is the
worst case for episodic memories: no end of an episode ever clears them.
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
DISCRETE = gym.spaces.Discrete(STATES)
ACTIONS = gym.spaces.Discrete(3)


@dataclass(frozen=True)
class Reading:
    """Memory in use at one moment."""

    rollouts: int
    resident_bytes: int
    """Resident set of the process; 0 where the system does not report it."""
    memory_bytes: int
    """Size of all tensors in the reward's `memory`."""
    module_bytes: int
    """Size of all tensors in the reward's `state_dict()`, the optimizer's included."""
    objects: int
    """Python objects that the garbage collector tracks."""


def make_reward(name: str, **options: Any) -> IntrinsicReward:
    """A registered reward on vectors, or on Discrete states if it accepts only those."""
    try:
        return mmrs.make(name, VECTORS, ACTIONS, **options)
    except UnsupportedSpaceError:
        return mmrs.make(name, DISCRETE, ACTIONS, **options)


def endless_rollout(bonus: IntrinsicReward, rng: np.random.Generator) -> Rollout:
    """T=16, N=4 steps of an episode that never ends and whose vectors never repeat."""
    never = np.zeros((STEPS, ENVS), bool)
    if isinstance(bonus.observation_space, gym.spaces.Discrete):
        obs = rng.integers(0, STATES, (STEPS + 1, ENVS))
    else:
        obs = rng.standard_normal((STEPS + 1, ENVS, FEATURES), np.float32)
    return Rollout(obs=obs, actions=rng.integers(0, 3, (STEPS, ENVS)), terminated=never, truncated=never)


def watch_memory(bonus: IntrinsicReward, rollouts: int = 1000, readings: int = 5) -> list[Reading]:
    """Run `compute` and `update` on `rollouts` rollouts; memory in use at even intervals.

    The first reading comes after the first interval, when buffers and caches have reached their size.
    """
    rng = np.random.default_rng(0)
    memory: dict[str, Any] | None = None
    every = rollouts // readings
    taken = []
    for number in range(1, rollouts + 1):
        rollout = endless_rollout(bonus, rng)
        _, memory = bonus.compute(rollout, memory)
        bonus.update(rollout)
        if number % every == 0:
            taken.append(_reading(number, bonus, memory))
    return taken


def _reading(number: int, bonus: IntrinsicReward, memory: Mapping[str, Any]) -> Reading:
    gc.collect()
    return Reading(
        number, resident_bytes(), tensor_bytes(memory), tensor_bytes(bonus.state_dict()), len(gc.get_objects())
    )


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
    """Watch every registered reward, print the table, return the content of the JSON file."""
    rollouts = 200 if quick else 1000
    with threads(1):  # the tensors are too small for more
        readings = {name: watch_memory(make_reward(name), rollouts) for name in REWARDS}
    rows = []
    for name, taken in readings.items():
        first, last = taken[0], taken[-1]
        resident = [reading.resident_bytes / 2**20 for reading in (first, last)]
        kept = [(reading.memory_bytes + reading.module_bytes) / 1024 for reading in (first, last)]
        rows.append([name, *resident, resident[1] - resident[0], *kept, last.objects - first.objects])
    print_table(
        f"memory after {rollouts // 5} and after {rollouts} rollouts of T={STEPS}, N={ENVS}, one episode without end",
        ["reward", "RSS, MiB", "then", "change", "memory + state, KiB", "then", "more objects"],
        rows,
    )
    return {
        "rollouts": {"number": rollouts, "steps": STEPS, "envs": ENVS},
        "held": {name: [asdict(reading) for reading in taken] for name, taken in readings.items()},
    }


if __name__ == "__main__":
    options = arguments(__doc__.partition("\n")[0])
    print(write_results("memory", run(options.quick)))
