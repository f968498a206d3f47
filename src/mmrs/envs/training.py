"""What a trainer asks of environments: steps with true last states, both kinds of return, and exact resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gymnasium import spaces
from numpy.typing import NDArray

Values = NDArray[Any]


@dataclass(frozen=True)
class Episodes:
    """What ended in one vector step."""

    life_returns: list[float] = field(default_factory=list)
    """Raw reward of each life (or episode, where there are no lives) that ended: the paper's "one-life return"."""
    game_returns: list[float] = field(default_factory=list)
    """Raw reward of each whole game that ended; equal to `life_returns` where there are no lives."""
    game_lengths: list[int] = field(default_factory=list)
    """Agent steps of each whole game that ended."""
    infos: list[dict[str, float]] = field(default_factory=list)
    """Numbers the environment itself reported at the end of a game ("success", "coverage", ...)."""
    game_envs: list[int] = field(default_factory=list)
    """Which environment each of these games was played in."""


@dataclass(frozen=True)
class Step:
    """One step of N environments under SAME_STEP autoreset."""

    obs: Values
    """``[N, *obs]``: what the agent sees next, already of the next episode where one ended."""
    reward: Values
    """``[N]`` float32: raw extrinsic reward, neither clipped nor scaled."""
    terminated: Values
    """``[N]`` bool: the learner's episode ended in a terminal state (a lost life counts as one in Atari)."""
    truncated: Values
    """``[N]`` bool: it was cut off."""
    final_obs: Values
    """``[M, *obs]``: the true last state of each of the M environments with ``terminated | truncated``, in order."""
    episodes: Episodes


class TrainingEnvs(Protocol):
    """N environments stepped together. Seeds and actions since the last seeded reset are enough to restore them."""

    num_envs: int
    observation_space: spaces.Space[Any]
    """Of one environment."""
    action_space: spaces.Space[Any]
    """Of one environment."""

    def reset(self, seed: int) -> Values:
        """Start all environments afresh; environment i gets a seed derived from (seed, i). Returns ``[N, *obs]``."""
        ...

    def step(self, actions: Values) -> Step:
        """Step all environments with ``[N, *act]`` actions, checked against the action space first."""
        ...

    def send(self, actions: Values) -> None:
        """Start a step; the caller may do something else until `recv`."""
        ...

    def ready(self) -> bool | None:
        """Whether `wait` would return at once; None where only `wait` can tell."""
        ...

    def wait(self) -> Values:
        """Wait for the step that `send` started: ``[N, *obs]``, what the agent sees next and may already act on.

        `recv` must follow: it does the rest, counting and recording, for which a GPU that acts need not wait.
        """
        ...

    def recv(self) -> Step:
        """The step that `send` started, waited for if need be."""
        ...

    def state(self) -> list[dict[str, Any]]:
        """What `restore` needs, of each environment by itself: numpy arrays, numbers and strings; cheap to take.

        Nothing in it depends on which environments were stepped together, so that others may be when it is restored.
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
