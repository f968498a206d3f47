"""Rewards by name: `make("rnd", observation_space, action_space)`, and how others add theirs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from gymnasium import spaces

from mmrs.errors import InputError, near_matches
from mmrs.rewards.base import IntrinsicReward
from mmrs.rewards.counts import CountReward
from mmrs.rewards.jfi import JFI
from mmrs.rewards.landmarks import LandmarkFairness
from mmrs.rewards.mmrs import MMRS
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
    "rnd_decay": partial(CountReward, form="decay"),
}


def register(name: str, factory: RewardFactory) -> None:
    """Make a reward of one's own available to `make` and to everything that takes a reward's name."""
    if name in REWARDS:
        raise InputError(f"a reward named {name!r} is registered already; choose another name.")
    REWARDS[name] = factory


def settings(name: str, **options: Any) -> dict[str, Any]:
    """Every option of a reward with its value, defaults filled in; just `options` of a factory that is no class."""
    factory: Any = _factory(name)
    if isinstance(factory, partial):
        factory, options = factory.func, {**factory.keywords, **options}
    known = isinstance(factory, type) and issubclass(factory, IntrinsicReward)
    return factory.settings(**options) if known else options


def make(
    name: str, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], **options: Any
) -> IntrinsicReward:
    """A reward by name, made from spaces (of a single environment), never from a live environment.

    Args:
        name: one of `REWARDS`.
        observation_space: of one environment: ``envs.single_observation_space`` of a vector environment.
        action_space: of one environment: ``envs.single_action_space``.
        **options: of that reward; its class documents them.
    """
    factory = _factory(name)
    parameters = inspect.signature(factory).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        fixed = factory.keywords if isinstance(factory, partial) else {}
        known = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY and n not in fixed]
        for option in options.keys() - set(known):
            raise InputError(f"{name} has no option {option!r}. {near_matches(option, known)}")
    return factory(observation_space, action_space, **options)


def _factory(name: str) -> RewardFactory:
    if not isinstance(name, str) or name not in REWARDS:
        raise InputError(f"there is no reward {name!r}. {near_matches(str(name), REWARDS)}")
    return REWARDS[name]
