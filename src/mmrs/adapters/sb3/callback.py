"""Base of the Stable-Baselines3 callbacks: makes the reward from the model's spaces, saves and loads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnasium import spaces

from mmrs.adapters.host import RewardHost, RewardSource, build_reward, read_state, write_state
from mmrs.errors import InputError, MissingExtraError
from mmrs.rewards import IntrinsicReward

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ImportError as error:
    raise MissingExtraError("stable-baselines3", "sb3") from error


class RewardCallback(BaseCallback):
    """A callback that owns a reward. The reward is made when the model is known."""

    def __init__(self, reward: RewardSource, weight: float, verbose: int) -> None:
        super().__init__(verbose)
        self._source, self._weight = reward, weight
        self._reward_host: RewardHost | None = None
        self._saved: dict[str, Any] | None = None

    @property
    def reward_host(self) -> RewardHost:
        """The reward with its weight and memory; exists once `learn` has been called."""
        if self._reward_host is None:
            raise InputError("the bonus is made from the model's spaces: it exists once learn() has been called.")
        return self._reward_host

    @property
    def reward(self) -> IntrinsicReward:
        """The reward itself."""
        return self.reward_host.reward

    def attach_reward(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        """Make the reward, or reuse it in a second `learn`; then apply the state that `load` has read, if any."""
        source = self._source if self._reward_host is None else self._reward_host.reward
        reward = build_reward(source, observation_space, action_space)
        if self._reward_host is None:
            self._reward_host = RewardHost(reward, self._weight)
        if self._saved is not None:
            self._restore(self._saved)
            self._saved = None

    def log(self, metrics: dict[str, float]) -> None:
        """Write metrics to the model's logger."""
        for name, value in metrics.items():
            self.logger.record(f"mmrs/{name}", value)

    def extra_state(self) -> dict[str, Any]:
        """State of the callback besides the reward."""
        return {}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from what `extra_state` returned."""

    def save(self, path: str | Path) -> None:
        """Save the bonus with the model: ``model.save("run"); callback.save("run.bonus")``."""
        write_state({"bonus": self.reward_host.state_dict(), "callback": self.extra_state()}, path)

    def load(self, path: str | Path) -> None:
        """Continue from a saved bonus; before the first `learn`, it is applied once the reward is made."""
        state = read_state(path)
        if self._reward_host is None:
            self._saved = state
        else:
            self._restore(state)

    def _restore(self, state: dict[str, Any]) -> None:
        self.reward_host.load_state_dict(state["bonus"])
        self.load_extra_state(state["callback"])
