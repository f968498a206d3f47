"""Registry of rewards by name: `make("rnd", observation_space, action_space)`, and `register` for custom rewards."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from gymnasium import spaces

from mmrs.errors import InputError, did_you_mean
from mmrs.rewards.base import IntrinsicReward
from mmrs.rewards.counts import CountReward
from mmrs.rewards.jfi import JFI
from mmrs.rewards.landmarks import LandmarkFairness
from mmrs.rewards.mmrs import MMRS
from mmrs.rewards.options import require_known
from mmrs.rewards.re3 import RE3
from mmrs.rewards.ride import RIDE
from mmrs.rewards.rnd import RND

RewardFactory = Callable[..., IntrinsicReward]

REWARDS: dict[str, RewardFactory] = {
    "jfi": JFI,
    "landmarks": LandmarkFairness,
    "mmrs": MMRS,
    "re3": RE3,
    "ride": RIDE,
    "rnd": RND,
    "count_bonus": partial(CountReward, form="bonus"),
    "count_penalty": partial(CountReward, form="penalty"),
    "coverage": partial(CountReward, form="coverage"),
    "entropy": partial(CountReward, form="entropy"),
    "exp_decay": partial(CountReward, form="decay"),
}


def register(name: str, factory: RewardFactory) -> None:
    """Make a custom reward available to `make` and wherever a reward is chosen by name."""
    if name in REWARDS:
        raise InputError(f"a reward named {name!r} is registered already; choose another name.")
    REWARDS[name] = factory


def settings(name: str, **options: Any) -> dict[str, Any]:
    """Every option of a reward with its value, defaults filled in; only `options` if the factory is not a class."""
    factory: Any = _factory(name)
    if isinstance(factory, partial):
        factory, options = factory.func, {**factory.keywords, **options}
    known = isinstance(factory, type) and issubclass(factory, IntrinsicReward)
    return factory.settings(**options) if known else options


def make(
    name: str, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], **options: Any
) -> IntrinsicReward:
    """Make a reward by name from the spaces of a single environment.

    Args:
        name: one of `REWARDS`.
        observation_space: space of one environment: ``envs.single_observation_space`` of a vector environment.
        action_space: space of one environment: ``envs.single_action_space``.
        **options: options of that reward; see its class.
    """
    factory = _factory(name)
    parameters = inspect.signature(factory).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        fixed = factory.keywords if isinstance(factory, partial) else {}
        known = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY and n not in fixed]
        require_known(name, options, known)
    return factory(observation_space, action_space, **options)


def _factory(name: str) -> RewardFactory:
    if not isinstance(name, str) or name not in REWARDS:
        raise InputError(f"there is no reward {name!r}. {did_you_mean(str(name), REWARDS)}")
    return REWARDS[name]
