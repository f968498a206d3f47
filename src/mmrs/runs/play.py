"""Playing a trained policy: the one loop behind `mmrs eval`, `mmrs video` and `mmrs audit`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mmrs.envs.base import EnvStep
from mmrs.ppo.policy import Policy
from mmrs.rollout import Rollout

Values = NDArray[Any]


class Observed(Protocol):
    """A step, of which `play` reads only what the policy sees next."""

    @property
    def obs(self) -> Values:
        """``[N, *obs]``; empty when there is nothing left to play."""
        ...


S = TypeVar("S", bound=Observed)
S_co = TypeVar("S_co", bound=Observed, covariant=True)


class Playable(Protocol[S_co]):
    """The part of a vector environment that `play` uses."""

    def reset(self, seed: int, /) -> Values:
        """Start all environments; returns ``[N, *obs]``."""
        ...

    def step(self, actions: Values, /) -> S_co:
        """Step all environments."""
        ...


class Transition(NamedTuple, Generic[S]):
    """One vector step of a policy."""

    obs: Values
    """``[N, *obs]``: what the policy saw."""
    actions: Values
    """``[N, *act]``: what it did."""
    step: S
    """What the environments returned."""
    image: Values | None
    """RGB image before the step, if one was asked for."""


def play(
    policy: Policy,
    envs: Playable[S],
    seed: int,
    *,
    deterministic: bool = False,
    render: Callable[[], Values] | None = None,
) -> Iterator[Transition[S]]:
    """Reset the environments and yield step after step, until a step has no observations left.

    Args:
        policy: the policy to play.
        envs: N environments; N may shrink from step to step.
        seed: of the environments.
        deterministic: take the likeliest action instead of a sampled one.
        render: draws the image that a transition gets.
    """
    obs = envs.reset(seed)
    while len(obs):
        image = np.array(render()) if render else None
        actions = policy.act(obs, deterministic)
        step = envs.step(actions)
        yield Transition(obs, actions, step, image)
        obs = step.obs


def to_rollout(policy: Policy, transitions: Sequence[Transition[EnvStep]]) -> Rollout:
    """Successive transitions as the rollout that the bonus would get in training."""
    steps = [transition.step for transition in transitions]
    finals = [step.final_obs for step in steps if len(step.final_obs)]
    seen = [*(transition.obs for transition in transitions), steps[-1].obs]
    return Rollout(
        obs=torch.stack([policy.inputs(obs) for obs in seen]),
        actions=np.stack([transition.actions for transition in transitions]),
        terminated=np.stack([step.terminated for step in steps]),
        truncated=np.stack([step.truncated for step in steps]),
        final_obs=policy.inputs(np.concatenate(finals)) if finals else None,
    )
