"""What the callbacks of Stable-Baselines3 share: making the reward from the model's spaces, saving and loading it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnasium import spaces

from mmrs.adapters.host import HostedReward, RewardSource, build_reward, read_state, write_state
from mmrs.errors import InputError, MissingExtraError
from mmrs.rewards import IntrinsicReward

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ImportError as error:
    raise MissingExtraError("stable-baselines3", "sb3") from error


class HostingCallback(BaseCallback):
    """A callback that owns a reward, made when the model is known."""

    def __init__(self, reward: RewardSource, weight: float, verbose: int) -> None:
        super().__init__(verbose)
        self._source, self._weight = reward, weight
        self._hosted: HostedReward | None = None
        self._saved: dict[str, Any] | None = None

    @property
    def hosted(self) -> HostedReward:
        """The reward with its weight and memory."""
        if self._hosted is None:
            raise InputError("the bonus is made from the model's spaces: it exists once learn() has been called.")
        return self._hosted

    @property
    def reward(self) -> IntrinsicReward:
        """The reward itself."""
        return self.hosted.reward

    def host(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        """Make the reward, or on a second `learn` go on with it; read what `load` named."""
        source = self._source if self._hosted is None else self._hosted.reward
        reward = build_reward(source, observation_space, action_space)
        if self._hosted is None:
            self._hosted = HostedReward(reward, self._weight)
        if self._saved is not None:
            self._restore(self._saved)
            self._saved = None

    def log(self, metrics: dict[str, float]) -> None:
        """Hand metrics to the model's logger."""
        for name, value in metrics.items():
            self.logger.record(f"mmrs/{name}", value)

    def extra_state(self) -> dict[str, Any]:
        """What a callback keeps beside the reward."""
        return {}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Continue from what `extra_state` gave."""

    def save(self, path: str | Path) -> None:
        """Save the bonus beside the model: ``model.save("run"); callback.save("run.bonus")``."""
        write_state({"bonus": self.hosted.state_dict(), "callback": self.extra_state()}, path)

    def load(self, path: str | Path) -> None:
        """Continue from a saved bonus; before the first `learn`, it is read as soon as the reward is made."""
        state = read_state(path)
        if self._hosted is None:
            self._saved = state
        else:
            self._restore(state)

    def _restore(self, state: dict[str, Any]) -> None:
        self.hosted.load_state_dict(state["bonus"])
        self.load_extra_state(state["callback"])
