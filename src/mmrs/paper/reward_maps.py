"""The five rewards of the paper on the same rollouts of one environment: a table, and a map of each reward."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from rich.console import Console
from rich.table import Table
from torch import Tensor

from mmrs.recorder import RolloutRecorder
from mmrs.report.rendering import new_figure, save_figure
from mmrs.rewards import IntrinsicReward, make
from mmrs.rollout import Rollout
from mmrs.runs.threads import set_num_threads
from mmrs.storage.files import output_folder

ENVIRONMENT = "FrozenLake-v1"
SIDE = 8
NAMES = ("jfi", "mmrs", "re3", "ride", "rnd")


@dataclass(frozen=True)
class RewardSummary:
    """Statistics of a reward on the last rollout of a random walk."""

    name: str
    mean: float
    std: float
    by_state: list[float]
    """Mean bonus for stepping into each state; NaN for states that were not entered."""
    correlation: float
    """Correlation with the rarity 1/√n of the state stepped into: near 1 if rare states get more."""
    milliseconds: float
    """Median time of compute and update per rollout."""


def collect_rollouts(rollouts: int, steps: int, num_envs: int, seed: int) -> list[Rollout]:
    """Rollouts of uniformly random actions on an 8x8 frozen lake, recorded under SAME_STEP autoreset."""
    makers = [lambda: gym.make(ENVIRONMENT, map_name="8x8", is_slippery=False)] * num_envs
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    random = np.random.default_rng(seed)
    recorder = RolloutRecorder(AutoresetMode.SAME_STEP)
    recorder.reset(envs.reset(seed=seed)[0])
    recorded = []
    for _ in range(rollouts):
        for _ in range(steps):
            actions = random.integers(4, size=num_envs)
            obs, _, terminated, truncated, info = envs.step(actions)
            recorder.add(actions, obs, terminated, truncated, info)
        recorded.append(recorder.rollout())
    envs.close()
    return recorded


def summarize_reward(name: str, rollouts: list[Rollout], seed: int) -> RewardSummary:
    """Compute and train a reward rollout by rollout; returns the statistics of the last one."""
    bonus: IntrinsicReward = make(name, gym.spaces.Discrete(SIDE**2), gym.spaces.Discrete(4), seed=seed)
    memory, times, reward = None, [], torch.zeros(0)
    for rollout in rollouts:
        began = time.perf_counter()
        reward, memory = bonus.compute(rollout, memory)
        bonus.update(rollout)
        times.append(1000 * (time.perf_counter() - began))
    entered = torch.stack([_entered(rollout) for rollout in rollouts])
    visits = torch.bincount(entered.flatten(), minlength=SIDE**2).double()
    last, flat = entered[-1].flatten(), reward.double().flatten()
    sums = torch.zeros(SIDE**2, dtype=torch.float64).index_add_(0, last, flat)
    by_state = sums / torch.bincount(last, minlength=SIDE**2)
    rarity = visits[last].rsqrt()
    correlation = float(torch.corrcoef(torch.stack([flat, rarity]))[0, 1])
    std = float(flat.std(correction=0))
    return RewardSummary(name, float(flat.mean()), std, by_state.tolist(), correlation, float(np.median(times)))


def compare_rewards(
    folder: Path, *, rollouts: int = 30, steps: int = 128, num_envs: int = 8, seed: int = 0
) -> list[RewardSummary]:
    """Collect rollouts, compute every reward on them, print a table and draw a map of each reward."""
    folder = output_folder(folder)
    set_num_threads(1)  # the networks are small: a second thread makes them slower
    recorded = collect_rollouts(rollouts, steps, num_envs, seed)
    summaries = [summarize_reward(name, recorded, seed) for name in NAMES]
    visits = torch.bincount(torch.stack([_entered(r) for r in recorded]).flatten(), minlength=SIDE**2)
    paths = draw_reward_maps([(p.name, p.by_state) for p in summaries], visits.tolist(), SIDE, folder)
    table = Table(title=f"Five rewards on rollout {rollouts} of a random walk on {ENVIRONMENT} (8x8)")
    for column in ("reward", "mean", "std", "correlation with rarity", "ms per rollout"):
        table.add_column(column, justify="left" if column == "reward" else "right")
    for p in summaries:
        table.add_row(p.name, f"{p.mean:.4f}", f"{p.std:.4f}", f"{p.correlation:+.2f}", f"{p.milliseconds:.1f}")
    console = Console()
    console.print(table)
    console.print("Pictures: " + ", ".join(map(str, paths)), soft_wrap=True)
    return summaries


def draw_reward_maps(
    rewards: Sequence[tuple[str, Sequence[float]]], visits: Sequence[int], side: int, folder: Path
) -> list[Path]:
    """Draw one map of visits and one per reward, as PNG and SVG; cells that were not entered stay gray."""
    panels = len(rewards) + 1
    figure = new_figure(2.5 * panels, 2.9)
    counts = np.array(visits, float).reshape(side, side)
    maps = [("visits (log)", np.log10(np.where(counts > 0, counts, np.nan)), "cividis")]
    maps += [(name, np.array(values, float).reshape(side, side), "viridis") for name, values in rewards]
    for index, (title, values, colors) in enumerate(maps):
        axes = figure.add_subplot(1, panels, index + 1, facecolor="#d8d8d8")
        picture = axes.imshow(values, cmap=colors)
        axes.set_title(title)
        axes.set_xticks([])
        axes.set_yticks([])
        figure.colorbar(picture, ax=axes, orientation="horizontal", shrink=0.9, pad=0.04)
    return save_figure(figure, folder, "rewards")


def _entered(rollout: Rollout) -> Tensor:
    """The state that each step led to, final states of episodes included."""
    return rollout.map_pairs(lambda states: states)[1]
