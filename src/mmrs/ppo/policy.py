"""A trained policy on its own: what evaluation, videos and exports need."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from mmrs.nets.actor_critic import ActorCritic
from mmrs.spaces import ActionSpec, action_spec, observation_spec

Values = NDArray[Any]


class Policy:
    """Network and input statistics, frozen; acts without learning anything."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        state: dict[str, Any],
        seed: int = 0,
    ) -> None:
        """Args:
        observation_space: of one environment.
        action_space: of one environment.
        state: of a trainer, as `Trainer.state` gives it.
        seed: of the actions drawn.
        """
        self.observation, self.action, self.action_space = (
            observation_spec(observation_space), action_spec(action_space), action_space
        )  # fmt: skip
        heads = next(v for k, v in reversed(list(state["network"].items())) if k.startswith("value") and v.ndim == 1)
        self.network = ActorCritic(self.observation, self.action, len(heads)).eval()
        self.network.load_state_dict({name: value.cpu() for name, value in state["network"].items()})
        self.normaliser: ObsNormaliser | None = None
        if state["normaliser"] is not None:
            self.normaliser = ObsNormaliser(self.observation.shape)
            self.normaliser.restore(state["normaliser"])
        self.for_env = ForEnv(self.action, action_space)
        self.generator = torch.Generator().manual_seed(seed)

    def inputs(self, obs: Values) -> Tensor:
        """Observations ``[N, *obs]`` as the bonus and the network of training saw them."""
        return torch.as_tensor(self.normaliser(obs) if self.normaliser else np.array(obs))

    @torch.no_grad()
    def act(self, obs: Values, deterministic: bool) -> Values:
        """Actions for ``[N, *obs]`` observations, ready for the environment."""
        parameters, _ = self.network(self.observation.features(self.inputs(obs)))
        if deterministic:
            return self.for_env(self.network.mode(parameters).numpy())
        noise = self.network.noise((len(parameters),), self.generator)
        return self.for_env(self.network.sample(parameters, noise).numpy())


class ForEnv:
    """Sampled actions ``[N, A]`` as environments take them: numbers from the space's start, or clipped to its bounds.

    Always a copy: what an actor hands out is overwritten by its next step.
    """

    def __init__(self, spec: ActionSpec, space: spaces.Space[Any]) -> None:
        self.shape = (-1, *spec.shape)
        self.starts = np.array(spec.starts) if spec.choices else None
        self.low: Any = getattr(space, "low", None)
        self.high: Any = getattr(space, "high", None)

    def __call__(self, actions: Values) -> Values:
        """The actions of one step."""
        if self.starts is not None:
            numbers: Values = (actions + self.starts).reshape(self.shape)
            return numbers
        inside: Values = np.maximum(actions.reshape(self.shape), self.low)
        np.minimum(inside, self.high, out=inside)
        return inside


class ObsNormaliser:
    """Standardises observations by the mean and variance of all the agent has seen, clipped to ±10."""

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0) -> None:
        self.clip = clip
        self.mean, self.variance, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def see(self, obs: Values) -> Values:
        """Take in ``[N, *shape]`` observations, then normalise them."""
        # Sums of differences from the running mean: fewer calls than mean and var, and as exact far from the origin.
        n, away = len(obs), obs - self.mean
        delta, total = np.add.reduce(away) / n, self.count + n
        away -= delta
        spread = np.add.reduce(away * away) + self.variance * self.count + delta * delta * (self.count * n / total)
        self.mean, self.variance, self.count = self.mean + delta * (n / total), spread / total, total
        return self(obs)

    def __call__(self, obs: Values) -> Values:
        """Normalise without learning: for last states, which the agent never acts on, and for evaluation."""
        scaled: Values = (obs - self.mean) / np.sqrt(self.variance + 1e-8)
        np.minimum(np.maximum(scaled, -self.clip, out=scaled), self.clip, out=scaled)
        return scaled.astype(np.float32)

    def state(self) -> dict[str, Any]:
        """What `restore` needs."""
        return {"mean": self.mean, "variance": self.variance, "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.mean, self.variance = np.array(state["mean"]), np.array(state["variance"])
        self.count = float(state["count"])
