"""Gymnasium: a wrapper that adds a causal reward to any vector environment, under all three autoreset modes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper
from numpy.typing import NDArray

from mmrs.adapters.host import HostedReward, RewardSource, build_reward, read_state, write_state
from mmrs.adapters.transitions import StepLog
from mmrs.errors import InputError
from mmrs.recorder import RolloutRecorder
from mmrs.rewards import IntrinsicReward, require_causal

Values = NDArray[Any]


class BonusVectorWrapper(VectorWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Pays ``extrinsic + weight * bonus`` at each step, and keeps the extrinsic reward in ``info``.

    ``info["extrinsic_reward"]`` and ``info["bonus"]`` hold the two parts. Wrappers that report scores, such as
    RecordEpisodeStatistics, belong below this one, where they see the extrinsic reward alone.

    Example:
        >>> envs = gym.make_vec("CartPole-v1", num_envs=8)
        >>> envs = BonusVectorWrapper(envs, "rnd", weight=0.1)
    """

    def __init__(
        self, env: VectorEnv[Any, Any, Any], reward: RewardSource, *, weight: float = 1.0, train_every: int = 1024
    ) -> None:
        """Args:
        env: any vector environment whose metadata names its autoreset mode.
        reward: a causal reward: its name, itself, or a function from (observation space, action space) to it.
        weight: factor of the bonus.
        train_every: steps, summed over environments, between two trainings of the reward on what was seen.
        """
        gym.utils.RecordConstructorArgs.__init__(self, reward=reward, weight=weight, train_every=train_every)
        VectorWrapper.__init__(self, env)
        if "autoreset_mode" not in env.metadata:
            raise InputError(
                "the vector environment does not name its autoreset mode, so the true last state of an episode cannot "
                "be told from the next one's first. Set env.metadata['autoreset_mode'] to a gymnasium.vector."
                "AutoresetMode."
            )
        if train_every < 1:
            raise InputError(f"train_every={train_every}: expected at least 1 step.")
        made = build_reward(reward, env.single_observation_space, env.single_action_space)
        require_causal(made, "a Gymnasium wrapper")
        self.train_every = train_every
        self.hosted = HostedReward(made, weight)
        self._recorder = RolloutRecorder(env.metadata["autoreset_mode"])
        self._log = StepLog()

    @property
    def reward(self) -> IntrinsicReward:
        """The reward itself."""
        return self.hosted.reward

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, all or (DISABLED autoreset) those of ``options["reset_mask"]``."""
        mask = None if options is None else options.get("reset_mask")  # Gymnasium takes it out of the options
        obs, info = self.env.reset(seed=seed, options=options)
        self._recorder.reset(obs, mask)
        if mask is None:
            self.hosted.restart()
        return obs, info

    def step(self, actions: Any) -> tuple[Any, Values, Values, Values, dict[str, Any]]:
        """Step the environments and pay the bonus; dummy steps of NEXT_STEP autoreset are paid nothing."""
        obs, extrinsic, terminated, truncated, info = self.env.step(actions)
        self._recorder.add(actions, obs, terminated, truncated, info)
        step = self._recorder.rollout()
        # An environment that pays whole numbers must not round the bonus away.
        kind = np.result_type(extrinsic, np.float32)
        bonus = self.hosted.pay(step)[0][0].astype(kind)
        self._log.add(step)
        if len(self._log) >= self.train_every:
            self.hosted.learn(self._log.take())
        return obs, extrinsic + bonus, terminated, truncated, info | _parts(extrinsic_reward=extrinsic, bonus=bonus)

    def save(self, path: Any) -> None:
        """Save the bonus: module, optimiser, memory and the steps it has yet to learn from."""
        write_state({"bonus": self.hosted.state_dict(), "steps": self._log.state_dict()}, path)

    def load(self, path: Any) -> None:
        """Continue from a saved bonus."""
        state = read_state(path)
        self.hosted.load_state_dict(state["bonus"])
        self._log.load_state_dict(state["steps"])


def _parts(**values: Values) -> dict[str, Values]:
    """Entries of a vector info: each with the mask that says for which environments it holds."""
    masks = {f"_{name}": np.ones(len(value), bool) for name, value in values.items()}
    return {**values, **masks}
