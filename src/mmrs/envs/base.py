"""The interface of environments: steps with true last states, both kinds of return, and exact resume."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mmrs.errors import InputError
from mmrs.spaces import action_spec, observation_spec

Values = NDArray[Any]


@dataclass(frozen=True)
class Episodes:
    """Episodes and games that ended in one vector step."""

    episode_returns: list[float] = field(default_factory=list)
    """Raw reward of each ended episode of the learner: a life where there are lives (the paper's "one-life return")."""
    game_returns: list[float] = field(default_factory=list)
    """Raw reward of each whole game that ended; equal to `episode_returns` where there are no lives."""
    game_lengths: list[int] = field(default_factory=list)
    """Agent steps of each whole game that ended."""
    infos: list[dict[str, float]] = field(default_factory=list)
    """Scalars that the environment reported at the end of each game ("success", "coverage", ...)."""
    game_envs: list[int] = field(default_factory=list)
    """Index of the environment of each game."""


NO_EPISODES = Episodes()
"""No episode ended, as in most steps."""


@dataclass(frozen=True)
class EnvStep:
    """One step of N environments under SAME_STEP autoreset."""

    obs: Values
    """``[N, *obs]``: what the agent sees next, already of the next episode where one ended."""
    reward: Values
    """``[N]`` float32: raw extrinsic reward, neither clipped nor scaled."""
    terminated: Values
    """``[N]`` bool: the learner's episode ended in a terminal state (a lost life counts as one in Atari)."""
    truncated: Values
    """``[N]`` bool: the episode was cut off."""
    final_obs: Values
    """``[M, *obs]``: the true last state of each of the M environments with ``terminated | truncated``, in order."""
    episodes: Episodes


class ResumableVectorEnv(Protocol):
    """N environments stepped together, which can be saved and restored exactly."""

    num_envs: int
    observation_space: spaces.Space[Any]
    """Observation space of one environment."""
    action_space: spaces.Space[Any]
    """Action space of one environment."""

    def reset(self, seed: int) -> Values:
        """Start all environments afresh; environment i gets a seed derived from (seed, i). Returns ``[N, *obs]``."""
        ...

    def step(self, actions: Values) -> EnvStep:
        """Step all environments with ``[N, *act]`` actions, checked against the action space first."""
        ...

    def send(self, actions: Values) -> None:
        """Start a step; the caller may do something else until `recv`."""
        ...

    def poll(self) -> bool | None:
        """Whether `recv_obs` would return at once; None if that is unknown."""
        ...

    def recv_obs(self) -> Values:
        """Wait for the step that `send` started: ``[N, *obs]``, what the agent sees next and may already act on.

        `recv` must follow: it counts and records the step, which can overlap with inference on a GPU.
        """
        ...

    def recv(self) -> EnvStep:
        """The step that `send` started, waited for if need be."""
        ...

    def state(self) -> list[dict[str, Any]]:
        """One dictionary per environment with all that `restore` needs: arrays, numbers and strings; cheap to take.

        It does not depend on which environments were stepped together, so they may be grouped otherwise on restore.
        """
        ...

    def restore(self, state: Sequence[dict[str, Any]]) -> Values:
        """Bring freshly made environments exactly to where `state` was taken; returns the observation seen then."""
        ...

    def render(self) -> Values:
        """RGB picture ``[H, W, 3]`` of environment 0 as it is now."""
        ...

    def close(self) -> None:
        """Release processes and simulators."""
        ...


@dataclass(slots=True)
class BackendStep:
    """One step of N simulators that restart by themselves when a game is over (SAME_STEP)."""

    obs: Values
    """``[N, *obs]``, not overwritten by later steps."""
    reward: Values
    """``[N]`` float64."""
    terminated: Values
    truncated: Values
    done: Values
    """``terminated | truncated``."""
    game_over: Values
    """``[N]`` bool: the simulator restarted; a lost life alone does not."""
    final_obs: Values
    """``[M, *obs]``: true last state of each environment that is `done`."""
    infos: list[dict[str, float]]
    """Scalars reported at the end, one dictionary per game that is over."""


class VectorBackend(Protocol):
    """N simulators stepped together, without counting, checking or saving."""

    num_envs: int
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def reset(self, mask: Values, seeds: Values) -> Values:
        """Reset the environments in the mask ``[N]`` with one seed each; returns their observations.

        A seeded reset must forget everything before it: replay relies on that.
        """
        ...

    def send(self, actions: Values) -> None:
        """Start a step with valid actions."""
        ...

    def recv(self) -> BackendStep:
        """Wait for the step that was started."""
        ...

    def render(self) -> Values:
        """RGB picture of environment 0."""
        ...

    def close(self) -> None:
        """Release processes and simulators."""
        ...


class ActionCheck:
    """Refuses actions outside the space, before a simulator can hang on them or read out of bounds."""

    def __init__(self, space: spaces.Space[Any], num_envs: int) -> None:
        spec = action_spec(space)
        self.shape = (num_envs, *spec.shape)
        self.dtype: np.dtype[Any] = np.dtype(space.dtype)
        self.low: Values
        self.high: Values
        if isinstance(space, spaces.Box):
            self.low, self.high = space.low, space.high
        else:
            self.low = np.reshape(spec.starts, spec.shape)
            self.high = self.low + np.reshape(spec.nvec, spec.shape) - 1
        self.whole = not isinstance(space, spaces.Box)
        # Logged actions take the smallest type that holds them: 18 joystick positions need one byte, not eight.
        small = [np.min_scalar_type(int(edge)) for edge in (self.low.min(), self.high.max())] if self.whole else []
        self.log_dtype = np.result_type(*small) if self.whole else self.dtype

    def __call__(self, actions: Values) -> Values:
        """The actions as an array of the space's type; raises an error that names the first wrong one."""
        actions = np.asarray(actions)
        if actions.shape != self.shape:
            raise InputError(f"actions have shape {actions.shape}, expected {self.shape}: one for each environment.")
        if self.whole and actions.dtype.kind not in "iub":
            raise InputError(f"actions are {actions.dtype}, expected whole numbers.")
        inside = (actions >= self.low) & (actions <= self.high)  # NaN compares false, so it is refused too
        if np.count_nonzero(inside) != inside.size:  # several times faster than inside.all() on small arrays
            where = tuple(int(v) for v in np.argwhere(~inside)[0])
            low, high = (np.broadcast_to(edge, self.shape)[where] for edge in (self.low, self.high))
            raise InputError(
                f"action {actions[where]} of environment {where[0]} lies outside {low} to {high}. "
                "Clip actions to the bounds of the action space before stepping."
            )
        return actions.astype(self.dtype, copy=False)


def check_spaces(env_id: str, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
    """Refuse spaces that no policy or reward of the package can read; the error names the environment."""
    try:
        observation_spec(observation_space)
        action_spec(action_space)
    except InputError as error:
        raise type(error)(f"{env_id}: {error}") from None


def reported_scalars(info: Mapping[str, Any]) -> dict[str, float]:
    """The scalars of an info dictionary."""
    return {
        key: float(value)
        for key, value in info.items()
        if isinstance(value, numbers.Real | np.bool_) or (isinstance(value, np.ndarray) and value.ndim == 0)
    }


def picture(frame: Any) -> Values:
    """A rendered frame as ``[H, W, 3]`` uint8."""
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise InputError("This environment draws no picture. Make it with render=True; some have nothing to draw.")
    return frame.astype(np.uint8, copy=False)
