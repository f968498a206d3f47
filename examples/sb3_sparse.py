"""A sparse task that PPO alone does not solve, with and without a bonus: a corridor with a reward only at its far end.

python examples/sb3_sparse.py                     # the table of docs/results/sb3_sparse.md: 5 seeds, a few minutes
python examples/sb3_sparse.py --seeds 1 --steps 30000
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

import mmrs
from mmrs.adapters.sb3 import BonusCallback

LENGTH, LIMIT = 60, 150
WEIGHTS = {"mmrs": 1.0, "re3": 0.1, "ride": 0.1, "rnd": 1.0}


class Corridor(gym.Env[Any, Any]):
    """Sixty cells in a row; only the last one gives a reward. 150 random steps get about a dozen cells far."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = spaces.Box(0.0, 1.0, (LENGTH,), np.float32), spaces.Discrete(2)
        self.cell = 0

    def _obs(self) -> np.ndarray[Any, Any]:
        return np.eye(LENGTH, dtype=np.float32)[self.cell]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Put the agent at the left end."""
        super().reset(seed=seed, options=options)
        self.cell = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One cell to the left or to the right."""
        self.cell = int(np.clip(self.cell + (1 if action == 1 else -1), 0, LENGTH - 1))
        at_end = self.cell == LENGTH - 1
        return self._obs(), float(at_end), at_end, False, {}


def corridor() -> gym.Env[Any, Any]:
    """The corridor with its time limit."""
    return gym.wrappers.TimeLimit(Corridor(), LIMIT)


class Solved(BaseCallback):
    """Share of the last 100 episodes that reached the end, and the step at which it first passed 90 %."""

    def __init__(self) -> None:
        super().__init__()
        self.reached_end: list[bool] = []
        self.at: int | None = None

    def _on_step(self) -> bool:
        for done, reward in zip(self.locals["dones"], self.locals["rewards"], strict=True):
            if done:
                self.reached_end.append(bool(reward > 0.5))
        if self.at is None and len(self.reached_end) >= 100 and np.mean(self.reached_end[-100:]) > 0.9:
            self.at = self.num_timesteps
        return True


def train(bonus: str | None, seed: int, steps: int) -> dict[str, Any]:
    """One run; returns the final share of solved episodes and when the task was solved."""
    solved = Solved()
    callbacks: list[BaseCallback] = [solved]
    if bonus is not None:
        callbacks.append(BonusCallback(lambda obs, act: mmrs.make(bonus, obs, act, seed=seed), weight=WEIGHTS[bonus]))
    envs = make_vec_env(corridor, n_envs=8, seed=seed)
    PPO("MlpPolicy", envs, n_steps=128, batch_size=256, n_epochs=4, seed=seed, device="cpu").learn(steps, callbacks)
    return {"bonus": bonus, "seed": seed, "solved": float(np.mean(solved.reached_end[-100:])), "at": solved.at}


def wilson(successes: int, runs: int) -> tuple[float, float]:
    """95 % interval of a share that is valid for few runs and for shares of 0 and 1."""
    z, share = 1.96, successes / runs
    middle, half_width = share + z * z / (2 * runs), z * np.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    scale = 1 + z * z / runs
    return max(0.0, (middle - half_width) / scale), min(1.0, (middle + half_width) / scale)


def table(runs: list[dict[str, Any]]) -> str:
    """Runs as a table in Markdown, with 95 % intervals."""
    lines = [
        "| bonus | runs solved | 95 % interval of that share | steps until solved: mean, min to max |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(run["bonus"] for run in runs):
        own = [run for run in runs if run["bonus"] == name]
        when = [run["at"] for run in own if run["at"] is not None]
        low, high = wilson(len(when), len(own))
        steps = f"{np.mean(when):,.0f}, {min(when):,} to {max(when):,}" if when else "never"
        lines.append(f"| {name or 'none'} | {len(when)} of {len(own)} | {low:.2f} to {high:.2f} | {steps} |")
    return "\n".join(lines)


def main() -> None:
    """Run every method on every seed and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--bonuses", nargs="*", default=["none", "mmrs", "re3"])
    parser.add_argument("--out", type=Path, help="also write the runs as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    for name in args.bonuses:
        for seed in range(args.seeds):
            runs.append(train(None if name == "none" else name, seed, args.steps))
            print(runs[-1], flush=True)
            if args.out:
                args.out.write_text(json.dumps(runs, indent=1) + "\n")
    print(table(runs))


if __name__ == "__main__":
    main()
