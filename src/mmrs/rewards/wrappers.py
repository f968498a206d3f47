"""The scale of a bonus: division by a running standard deviation, and centring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mmrs.errors import InputError
from mmrs.functional.returns import linear_recurrence
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.options import require_finite
from mmrs.rollout import Rollout


@dataclass(frozen=True)
class RunningScale:
    """Shift and divisor that bring a bonus to unit spread, from all it was shown, with old steps fading.

    A pure function with explicit memory. Where the bonus is causal each step is scaled by what was known at that step,
    so that asking step by step gives what asking for the whole rollout gives; else one scale serves the rollout.
    """

    by: Literal["reward", "return"]
    """Spread of the bonus itself, or of its discounted return (as random network distillation does)."""
    centre: bool
    """Subtract the running mean, so that living longer is not paid by itself."""
    causal: bool
    gamma: float = 0.99
    """Discount of the return."""
    horizon: int = 12_800
    """Steps over which the past fades by 1/e: a hundred rollouts of 128 steps."""
    prior: float = 128.0
    """Samples' worth of doubt: until more were seen, the spread is taken to be about the size of the bonus. That of a
    handful of near-equal samples is next to nothing, and dividing by it would pay a fortune for the first steps."""

    def initial(self, num_envs: int, device: torch.device) -> Memory:
        """Nothing seen yet."""
        moments = torch.zeros(4, dtype=torch.float64, device=device)  # weight, Σ bonus, Σ x, Σ x²
        return {"moments": moments, "trace": torch.zeros(num_envs, dtype=torch.float64, device=device)}

    def __call__(
        self, bonus: Tensor, valid: Tensor, memory: Memory, done: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Memory]:
        """Shift and divisor for each step, ``[T, 1]`` (or ``[1, 1]``), and the new memory: ``(bonus - shift) / scale``.

        Args:
            bonus: ``[T, N]``.
            valid: ``[T, N]`` bool; other steps leave the statistics alone.
            memory: from `initial` or the previous call.
            done: ``[T, N]`` bool, steps after which the return starts afresh. Default: it never does, since novelty
                does not end with an episode.
        """
        bonus = bonus.double() * valid
        # The bonus of a step that is not valid counts as 0 in the return: time passes there too.
        trace = bonus
        if self.by == "return":
            restart = None if done is None else torch.cat([torch.zeros_like(done[:1]), done[:-1]])
            trace = linear_recurrence(bonus, self.gamma, memory["trace"], restart)
        spread = trace * valid
        sums = torch.stack([valid.double(), bonus, spread, spread.square()]).sum(2).T  # [T, 4]
        moments = linear_recurrence(sums, 1.0 - 1.0 / self.horizon, memory["moments"])
        left = trace[-1] if done is None else torch.where(done[-1], 0.0, trace[-1])
        new = {"moments": moments[-1], "trace": left if self.by == "return" else memory["trace"]}
        weight, total, x, xx = (moments if self.causal else moments[-1:]).unbind(1)
        weight = weight.clamp_min(1e-12)
        mean = x / weight
        variance = (xx / weight - mean.square()).clamp_min(0.0)
        doubt = self.prior / (self.prior + weight)
        scale = (variance + doubt * mean.square()).sqrt()
        # A bonus that has not varied at all has no spread to divide by; its size is the next best unit.
        flat = variance <= 1e-14 * mean.square()
        scale = torch.where(flat, torch.where(mean == 0, 1.0, mean.abs()), scale)
        shift = total / weight if self.centre else torch.zeros_like(total)
        return shift.unsqueeze(1), scale.unsqueeze(1), new


class Scaled(IntrinsicReward):
    """Divides a reward by the running standard deviation of its discounted return, or of itself.

    The reward is divided, never replaced by that return. Centring subtracts the running mean: a bonus that is positive
    at every step pays for staying alive, and a goal that ends the episode then looks like a loss.
    """

    def __init__(
        self,
        reward: IntrinsicReward,
        *,
        by: Literal["reward", "return"] = "return",
        centre: bool = False,
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
        self.scale = RunningScale(by, centre, reward.causal, gamma, horizon)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The inner terms, each divided by the scale of their sum; the shift is a term of its own."""
        terms, inner = self.reward.compute_terms(rollout, memory["reward"])
        total = torch.stack(list(terms.values())).sum(0)
        shift, scale, new = self.scale(total, rollout.valid, memory["scale"])
        terms = {name: (term / scale).to(term.dtype) for name, term in terms.items()}
        if self.scale.centre:
            terms["centre"] = (-shift / scale).to(total.dtype).expand_as(total)
        return terms, {"reward": inner, "scale": new}

    def learn(self, rollout: Rollout) -> Metrics:
        """Train the inner reward; the scale learns by being asked."""
        return self.reward.update(rollout, wait=False)

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """The inner memory and the statistics of the bonus."""
        inner = self.reward.initial_memory(num_envs, device)
        return {"reward": inner, "scale": self.scale.initial(num_envs, device)}


class Weighted(IntrinsicReward):
    """A reward times a weight, constant or moving linearly to another over a number of updates."""

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
        """The weight now, after `updates` updates."""
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
        """The inner memory."""
        return {"reward": self.reward.initial_memory(num_envs, device)}


class Sum(IntrinsicReward):
    """The sum of several rewards; terms are called ``name/term``."""

    def __init__(self, rewards: Mapping[str, IntrinsicReward]) -> None:
        if not rewards:
            raise InputError("Sum of no rewards: pass at least one, as {name: reward}.")
        for name in rewards:
            if not name or "." in name or hasattr(nn.ModuleDict, name):
                raise InputError(
                    f"Sum: {name!r} cannot name a reward: names are not empty, hold no dot and are none of torch's own "
                    "(such as 'type' or 'keys')."
                )
        first = next(iter(rewards.values()))
        for name, reward in rewards.items():
            if (reward.observation_spec, reward.action_spec) != (first.observation_spec, first.action_spec):
                raise InputError(
                    f"Sum: {name!r} was made for other spaces than the rest; make all from one environment."
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
        """Each reward's memory under its name."""
        return {name: reward.initial_memory(num_envs, device) for name, reward in self.rewards.items()}  # type: ignore[operator]
