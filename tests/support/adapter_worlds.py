"""Small environments and rewards for the adapters: every kind of episode end, bonuses that are known by hand."""

from __future__ import annotations

import random
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from mmrs.rewards import IntrinsicReward
from mmrs.rewards.base import Memory, Terms
from mmrs.rollout import Rollout

LENGTH = 6
LIMIT = 9
"""Time limit: some random walks from the middle reach the right end (terminated), others do not (truncated)."""


class Line(gym.Env[Any, Any]):
    """Cells 0 to 5 in a row, start in cell 2; reaching cell 5 ends the episode, so no reset ever returns it."""

    def __init__(self, kind: str = "box", pays: float = 0.0, actions: str = "discrete") -> None:
        self.kind, self.pays = kind, pays
        self.observation_space = {
            "box": spaces.Box(0.0, float(LENGTH), (2,), np.float32),
            "discrete": spaces.Discrete(LENGTH),
            "dict": spaces.Dict(
                {"cell": spaces.Box(0.0, float(LENGTH), (2,), np.float32), "noise": spaces.Discrete(3)}
            ),
        }[kind]
        self.action_space = spaces.Discrete(2) if actions == "discrete" else spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.cell = 2

    def _obs(self) -> Any:
        if self.kind == "discrete":
            return np.int64(self.cell)
        cell = np.array([self.cell, 1.0], np.float32)
        return {"cell": cell, "noise": np.int64(0)} if self.kind == "dict" else cell

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = 2
        return self._obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        right = bool(np.asarray(action).reshape(-1)[0] > 0)
        self.cell = max(0, self.cell + (1 if right else -1))
        return self._obs(), self.pays, self.cell == LENGTH - 1, False, {}

    def action_masks(self) -> np.ndarray:
        return np.array([self.cell > 0, True])


class Pays(gym.RewardWrapper[Any, Any]):
    """Adds a constant to the environment's reward."""

    def __init__(self, env: gym.Env[Any, Any], constant: float) -> None:
        super().__init__(env)
        self.constant = constant

    def reward(self, reward: Any) -> float:
        return float(reward) + self.constant

    def action_masks(self) -> Any:
        return self.env.get_wrapper_attr("action_masks")()


def line(kind: str = "box", pays: float = 0.0, constant: float = 0.0, actions: str = "discrete") -> gym.Env[Any, Any]:
    env = gym.wrappers.TimeLimit(Line(kind, pays, actions), LIMIT)
    return Pays(env, constant) if constant else env


class Constant(IntrinsicReward):
    """A bonus of 0.5 at every valid step."""

    causal = True

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        return {"constant": torch.full(rollout.done.shape, 0.5)}, memory


class Reached(IntrinsicReward):
    """The index of the cell that a step led to: its values show which successor the reward was given."""

    causal = True

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        first = (
            (lambda states: states.float()) if self.observation_spec.kind == "discrete" else (lambda s: s[:, 0].float())
        )
        return {"reached": rollout.map_pairs(first)[1]}, memory


class Hindsight(Reached):
    """The same, but declared as not causal."""

    causal = False


def gae_by_hand(
    rewards: np.ndarray, values: np.ndarray, last_values: np.ndarray, dones: np.ndarray, gamma: float, lam: float
) -> np.ndarray:
    """Generalized advantage estimation in float64, step by step from the end."""
    advantages, running = np.zeros(rewards.shape), np.zeros(rewards.shape[1])
    following = last_values.astype(float)
    for t in reversed(range(len(rewards))):
        alive = 1.0 - dones[t]
        running = rewards[t] + gamma * alive * following - values[t] + gamma * lam * alive * running
        advantages[t], following = running, values[t]
    return advantages


def same_weights(left: torch.nn.Module, right: torch.nn.Module) -> bool:
    a, b = left.state_dict(), right.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def weight_distance(left: torch.nn.Module, right: torch.nn.Module) -> float:
    a, b = left.state_dict(), right.state_dict()
    return max(float((a[name].double() - b[name].double()).abs().max()) for name in a)


def generators() -> tuple[Any, ...]:
    """The state of every global generator that a training loop may use."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 (what SB3 draws from)


def restore(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    torch.set_rng_state(states[2])


def seed_numpy(seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002
