"""Ranges of the values of a training configuration, checked before anything is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from operator import attrgetter
from typing import Any

from mmrs.errors import InputError
from mmrs.runs.config import TrainConfig


@dataclass(frozen=True)
class Range:
    """The values that a field may have; both ends included unless they are open."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def __contains__(self, value: Any) -> bool:
        kind: Any = Integral if self.whole else Real
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        if not self.whole and not math.isfinite(value):  # a configuration file could not hold it either
            return False
        above: bool = value > self.low if self.open_low else value >= self.low
        below: bool = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a finite number"
        edges = []
        if self.low > -math.inf:
            edges.append(f"{'above' if self.open_low else 'at least'} {self.low:,}")
        if self.high < math.inf:
            edges.append(f"{'below' if self.open_high else 'at most'} {self.high:,}")
        return ", ".join([kind, " and ".join(edges)] if edges else [kind])


ANY = Range()
COUNT = Range(1, whole=True)
POSITIVE = Range(0, open_low=True)
NOT_NEGATIVE = Range(0)
SHARE = Range(0, 1)

RANGES = {
    "env.num_envs": COUNT,
    "env.sticky": Range(0, 1, open_high=True),  # at 1 no action would ever reach the emulator
    "env.threads": COUNT,
    "env.groups": COUNT,
    "env.step_timeout": Range(0, 86_400, open_low=True),  # a day: the system's own timers overflow at 25
    "env.reseed_every": COUNT,
    "bonus.weight": ANY,
    "bonus.final_weight": ANY,
    "ppo.learning_rate": NOT_NEGATIVE,
    "ppo.clip": POSITIVE,
    "ppo.epochs": COUNT,
    "ppo.minibatches": COUNT,
    "ppo.gamma": SHARE,
    "ppo.gae_lambda": SHARE,
    "ppo.entropy_weight": ANY,
    "ppo.value_weight": NOT_NEGATIVE,
    "ppo.max_grad_norm": POSITIVE,
    "ppo.grad_value_clip": POSITIVE,
    "ppo.adam_eps": POSITIVE,
    "mixing.extrinsic_weight": ANY,
    "mixing.intrinsic_gamma": SHARE,
    "steps": COUNT,
    "num_steps": COUNT,
    "seed": Range(0, 2**63, open_high=True, whole=True),  # torch's generators take no larger ones
    "threads": COUNT,
    "checkpoint_every": COUNT,
}
"""Range by path of the field in `TrainConfig`. A field that is None is unset and not checked."""


def check(config: TrainConfig) -> None:
    """Refuse impossible values, naming the field and its range."""
    for name, allowed in RANGES.items():
        value = attrgetter(name)(config)
        if value is not None and value not in allowed:
            raise InputError(f"{name} is {value}, expected {allowed}.")
    if config.num_steps * config.env.num_envs < config.ppo.minibatches:
        raise InputError("a rollout has fewer transitions than ppo.minibatches; lengthen it or lower the minibatches.")
