"""Gymnasium: a wrapper that adds a causal reward to any vector environment, in all three autoreset modes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from mmrs.adapters.host import RewardHost, RewardSource, build_reward, read_state, write_state
from mmrs.adapters.transitions import StepBuffer
from mmrs.errors import InputError
from mmrs.recorder import RolloutRecorder
from mmrs.rewards import IntrinsicReward, require_causal

Values = NDArray[Any]


class BonusVectorWrapper(VectorWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Returns ``extrinsic + weight * bonus`` as the reward of each step.

    ``info["extrinsic_reward"]`` and ``info["bonus"]`` hold the two parts. Wrappers that report scores, such as
    RecordEpisodeStatistics, belong below this one, where they see only the extrinsic reward.

    Example:
        >>> envs = gym.make_vec("CartPole-v1", num_envs=8)
        >>> envs = BonusVectorWrapper(envs, "rnd", weight=0.1)
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], reward: RewardSource, *, weight: float = 1.0, train_every: int = 1024
    ) -> None:
        """Args:
        env: any vector environment whose metadata names its autoreset mode.
        reward: a causal reward, its name, or a function from (observation space, action space) to it.
        weight: factor of the bonus.
        train_every: steps, summed over environments, between two updates of the reward.
        """
        gym.utils.RecordConstructorArgs.__init__(self, reward=reward, weight=weight, train_every=train_every)
        VectorWrapper.__init__(self, env)
        if "autoreset_mode" not in env.metadata:
            raise InputError(
                "the vector environment does not name its autoreset mode, so the true last state of an episode cannot "
                "be distinguished from the next one's first. Set env.metadata['autoreset_mode'] to a gymnasium.vector."
                "AutoresetMode."
            )
        if train_every < 1:
            raise InputError(f"train_every={train_every}: expected at least 1 step.")
        made = build_reward(reward, env.single_observation_space, env.single_action_space)
        require_causal(made, "a Gymnasium wrapper")
        self.train_every = train_every
        self.reward_host = RewardHost(made, weight)
        self._recorder = RolloutRecorder(env.metadata["autoreset_mode"])
        self._step_buffer = StepBuffer()

    @property
    def reward(self) -> IntrinsicReward:
        """The reward itself."""
        return self.reward_host.reward

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, all or (DISABLED autoreset) those of ``options["reset_mask"]``."""
        mask = None if options is None else options.get("reset_mask")  # Gymnasium removes it from the options
        obs, info = self.env.reset(seed=seed, options=options)
        self._recorder.reset(obs, mask)
        if mask is None:
            self.reward_host.reset_episodes()
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Values, Values, Values, dict[str, Any]]:
        """Step the environments and add the bonus; it is 0 in the reset steps of NEXT_STEP autoreset."""
        obs, extrinsic, terminated, truncated, info = self.env.step(actions)
        self._recorder.add(actions, obs, terminated, truncated, info)
        step = self._recorder.rollout()
        # Float, so that integer rewards do not round the bonus away.
        dtype = np.result_type(extrinsic, np.float32)
        bonus = self.reward_host.compute(step)[0][0].astype(dtype)
        self._step_buffer.add(step)
        if len(self._step_buffer) >= self.train_every:
            self.reward_host.update(self._step_buffer.take())
        return obs, extrinsic + bonus, terminated, truncated, info | _parts(extrinsic_reward=extrinsic, bonus=bonus)

    def save(self, path: Any) -> None:
        """Save the bonus: module, optimizer, memory and the steps of the next update."""
        write_state({"bonus": self.reward_host.state_dict(), "steps": self._step_buffer.state_dict()}, path)

    def load(self, path: Any) -> None:
        """Continue from a saved bonus."""
        state = read_state(path)
        self.reward_host.load_state_dict(state["bonus"])
        self._step_buffer.load_state_dict(state["steps"])


def _parts(**values: Values) -> dict[str, Values]:
    """Entries of a vector info, each with the mask of the environments that have it."""
    masks = {f"_{name}": np.ones(len(value), bool) for name, value in values.items()}
    return {**values, **masks}
