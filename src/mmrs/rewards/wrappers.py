"""Rewards around rewards: scaling by a running standard deviation, weights and sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import nn

from mmrs.errors import InputError
from mmrs.nets.normalization import RunningScale
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.options import require_finite
from mmrs.rollout import Rollout


class Scaled(IntrinsicReward):
    """Divides a reward by the running standard deviation of its discounted return, or of itself.

    The reward is divided, never replaced by that return. Centering subtracts the running mean: a bonus that is positive
    at every step rewards staying alive, and a goal that ends the episode then looks like a loss.
    """

    def __init__(
        self,
        reward: IntrinsicReward,
        *,
        by: Literal["reward", "return"] = "return",
        center: bool = False,
        gamma: float = 0.99,
        horizon: int = 12_800,
    ) -> None:
        if by not in ("reward", "return"):
            raise InputError(f"Scaled(by={by!r}): expected 'reward' or 'return'.")
        if horizon < 1 or not 0 <= gamma <= 1:
            raise InputError(f"Scaled(gamma={gamma}, horizon={horizon}): expected 0 <= gamma <= 1 and horizon >= 1.")
        super().__init__(reward.observation_space, reward.action_space)
        self.reward = reward
        self.causal = reward.causal
        self.scale = RunningScale(by, center, reward.causal, gamma, horizon)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The inner terms, each divided by the scale of their sum; the shift is a term of its own."""
        terms, inner = self.reward.compute_terms(rollout, memory["reward"])
        total = torch.stack(list(terms.values())).sum(0)
        shift, scale, new = self.scale(total, rollout.valid, memory["scale"])
        terms = {name: (term / scale).to(term.dtype) for name, term in terms.items()}
        if self.scale.center:
            terms["center"] = (-shift / scale).to(total.dtype).expand_as(total)
        return terms, {"reward": inner, "scale": new}

    def learn(self, rollout: Rollout) -> Metrics:
        """Train the inner reward. `score` updates the scale, which is part of the memory."""
        return self.reward.update(rollout, wait=False)

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """Memory of the inner reward and statistics of the bonus."""
        inner = self.reward.initial_memory(num_envs, device)
        return {"reward": inner, "scale": self.scale.initial(num_envs, device)}


class Weighted(IntrinsicReward):
    """A reward times a weight, which is constant or changes linearly over a number of updates."""

    def __init__(
        self, reward: IntrinsicReward, weight: float, *, final_weight: float | None = None, over_updates: int = 0
    ) -> None:
        if (final_weight is None) != (over_updates <= 0):
            raise InputError("Weighted: give final_weight and a positive over_updates together, or neither.")
        require_finite("Weighted", weight=weight, final_weight=0.0 if final_weight is None else final_weight)
        super().__init__(reward.observation_space, reward.action_space)
        self.reward = reward
        self.causal = reward.causal
        self.first_weight, self.final_weight, self.over_updates = weight, final_weight, over_updates

    @property
    def weight(self) -> float:
        """Current weight, after `updates` updates."""
        if self.final_weight is None:
            return self.first_weight
        progress = min(1.0, self.updates / self.over_updates)
        return self.first_weight + progress * (self.final_weight - self.first_weight)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The inner terms times the weight."""
        terms, inner = self.reward.compute_terms(rollout, memory["reward"])
        return {name: self.weight * term for name, term in terms.items()}, {"reward": inner}

    def learn(self, rollout: Rollout) -> Metrics:
        """Train the inner reward."""
        return {**self.reward.update(rollout, wait=False), "weight": self.weight}

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """Memory of the inner reward."""
        return {"reward": self.reward.initial_memory(num_envs, device)}


class Sum(IntrinsicReward):
    """The sum of several rewards; terms are called ``name/term``."""

    def __init__(self, rewards: Mapping[str, IntrinsicReward]) -> None:
        if not rewards:
            raise InputError("Sum of no rewards: pass at least one, as {name: reward}.")
        for name in rewards:
            if not name or "." in name or hasattr(nn.ModuleDict, name):
                raise InputError(
                    f"Sum: {name!r} cannot name a reward: a name must not be empty, contain a dot or be an attribute "
                    "of torch's ModuleDict (such as 'type' or 'keys')."
                )
        first = next(iter(rewards.values()))
        for name, reward in rewards.items():
            if (reward.observation_spec, reward.action_spec) != (first.observation_spec, first.action_spec):
                raise InputError(
                    f"Sum: {name!r} was made for other spaces than the first reward; make all from one environment."
                )
        super().__init__(first.observation_space, first.action_space)
        self.rewards = nn.ModuleDict(rewards)
        self.causal = all(reward.causal for reward in rewards.values())

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """All terms of all rewards."""
        terms: Terms = {}
        new: Memory = {}
        for name, reward in self.rewards.items():
            inner, new[name] = reward.compute_terms(rollout, memory[name])  # type: ignore[operator]
            terms |= {f"{name}/{term}": value for term, value in inner.items()}
        return terms, new

    def learn(self, rollout: Rollout) -> Metrics:
        """Train each reward."""
        metrics = {name: reward.update(rollout, wait=False) for name, reward in self.rewards.items()}  # type: ignore[operator]
        return {f"{name}/{key}": value for name, inner in metrics.items() for key, value in inner.items()}

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """Memory of each reward under its name."""
        return {name: reward.initial_memory(num_envs, device) for name, reward in self.rewards.items()}  # type: ignore[operator]
