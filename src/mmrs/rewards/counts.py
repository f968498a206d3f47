"""Simple alternatives to JFI on exact counts, for comparison: the same visits, other formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import torch
from gymnasium import spaces
from torch import Tensor

from mmrs.errors import InputError
from mmrs.fields import FINITE
from mmrs.functional.fairness import gain
from mmrs.rewards.base import IntrinsicReward, Memory, Terms
from mmrs.rewards.jfi import require_states
from mmrs.rewards.options import configured
from mmrs.rewards.visits import CountedVisits, Scope, count_visits, initial_counts
from mmrs.rollout import Rollout
from mmrs.segments import VisitSlots

Form = Literal["bonus", "penalty", "entropy", "coverage", "decay"]
_NAMES = {"bonus": "count_bonus", "penalty": "count_penalty", "decay": "exp_decay"}
"""Registered name of a form, where it is another."""


@dataclass(frozen=True)
class CountConfig:
    """Options of the formulas on exact counts."""

    weight: Annotated[float | None, FINITE] = None
    """Weight of the formula. None: 0.1 for differences, 1/S for the penalty, else 0.1/S (a step cost is 0.1/S)."""
    gamma_g: Annotated[float, FINITE] = 1.0
    """Discount inside the differences."""
    scope: Scope = "episode"
    """"episode": counts start at 0 in each episode; "lifelong": never."""


class CountReward(IntrinsicReward):
    """`weight` times a formula of n, the visits of the successor state, or of all counts.

    - ``bonus``: 1/√n
    - ``penalty``: 1/√n − 1, never positive
    - ``decay``: exp(−n/10), as the error of a trained novelty network falls
    - ``entropy``: γ_G H(t+1) − H(t) of the plug-in entropy over log S
    - ``coverage``: γ_G C(t+1) − C(t) of the share of visited states
    """

    causal = True

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        form: Form = "bonus",
        config: CountConfig | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Args:
        observation_space: Discrete.
        action_space: any supported space.
        form: the formula.
        config: the options; None: the defaults.
        seed: unused; every reward has this argument.
        **options: fields of `CountConfig` to replace.
        """
        super().__init__(observation_space, action_space, seed=seed)
        require_states(self, _NAMES.get(form, form))
        if form not in get_args(Form):
            raise InputError(f"CountReward(form={form!r}): expected one of {', '.join(map(repr, get_args(Form)))}.")
        self.config = config = configured("counts", CountConfig, config, options)
        default = {"entropy": 0.1, "coverage": 0.1, "penalty": 1.0 / self.observation_spec.size}
        self.form = form
        self.weight = default.get(form, 0.1 / self.observation_spec.size) if config.weight is None else config.weight

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The weighted formula at each step."""
        before, after = rollout.map_pairs(self.observation_spec.indices)
        visits, memory = count_visits(rollout, before, after, memory, scope=self.config.scope)
        return {self.form: self.weight * self._formula(visits)}, memory

    def _formula(self, visits: CountedVisits) -> Tensor:
        if self.form in ("entropy", "coverage"):
            return gain(*self._potentials(visits), self.config.gamma_g)
        n = VisitSlots.after(visits.curve.earlier).double() + 1.0
        if self.form == "decay":
            return torch.exp(-0.1 * n)
        return n.rsqrt() - (1.0 if self.form == "penalty" else 0.0)

    def _potentials(self, visits: CountedVisits) -> tuple[Tensor, Tensor]:
        curve, size = visits.curve, self.observation_spec.size
        if self.form == "coverage":
            values = curve.distinct.double() / size
        else:
            values = curve.entropy() / max(math.log(size), 1e-12)  # a single state has entropy 0 of 0
        return VisitSlots.before(values), VisitSlots.after(values)

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """No visits."""
        return initial_counts(num_envs, self.observation_spec.size, device)
