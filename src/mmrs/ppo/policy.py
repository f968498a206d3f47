"""A trained policy without its trainer, for evaluation, videos and exports."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from mmrs.nets.actor_critic import ActorCritic
from mmrs.nets.normalization import ObsNormalizer
from mmrs.spaces import ActionSpec, action_spec, observation_spec

Values = NDArray[Any]


class Policy:
    """A network and its input statistics, both frozen."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        state: dict[str, Any],
        seed: int = 0,
    ) -> None:
        """Args:
        observation_space: space of one environment.
        action_space: space of one environment.
        state: what `Trainer.state` returned.
        seed: seed of the sampled actions.
        """
        self.observation, self.action, self.action_space = (
            observation_spec(observation_space), action_spec(action_space), action_space
        )  # fmt: skip
        heads = next(v for k, v in reversed(list(state["network"].items())) if k.startswith("value") and v.ndim == 1)
        self.network = ActorCritic(self.observation, self.action, len(heads)).eval()
        self.network.load_state_dict({name: value.cpu() for name, value in state["network"].items()})
        self.normalizer: ObsNormalizer | None = None
        if state["normaliser"] is not None:
            self.normalizer = ObsNormalizer(self.observation.shape)
            self.normalizer.restore(state["normaliser"])
        self.decode_actions = ActionDecoder(self.action, action_space)
        self.generator = torch.Generator().manual_seed(seed)

    def inputs(self, obs: Values) -> Tensor:
        """Observations ``[N, *obs]``, normalized as in training."""
        return torch.as_tensor(self.normalizer(obs) if self.normalizer else np.array(obs))

    @torch.no_grad()
    def act(self, obs: Values, deterministic: bool) -> Values:
        """Actions for ``[N, *obs]`` observations, ready for the environment."""
        parameters, _ = self.network(self.inputs(obs))
        if deterministic:
            return self.decode_actions(self.network.mode(parameters).numpy())
        noise = self.network.noise((len(parameters),), self.generator)
        return self.decode_actions(self.network.sample(parameters, noise).numpy())


class ActionDecoder:
    """Turns sampled actions ``[N, A]`` into the environment's: offset by the space's start, or clipped to its bounds.

    Always a copy, because an actor overwrites its actions at its next step.
    """

    def __init__(self, spec: ActionSpec, space: spaces.Space[Any]) -> None:
        self.shape = (-1, *spec.shape)
        self.starts = np.array(spec.starts) if spec.nvec else None
        self.low: Any = getattr(space, "low", None)
        self.high: Any = getattr(space, "high", None)

    def __call__(self, actions: Values) -> Values:
        """The actions of one step."""
        if self.starts is not None:
            discrete: Values = (actions + self.starts).reshape(self.shape)
            return discrete
        clipped: Values = np.maximum(actions.reshape(self.shape), self.low)
        np.minimum(clipped, self.high, out=clipped)
        return clipped
