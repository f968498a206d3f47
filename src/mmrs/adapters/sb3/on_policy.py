"""Stable-Baselines3, on-policy: a callback that adds an intrinsic reward to PPO, A2C, TRPO and similar algorithms."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from mmrs.adapters.host import RewardSource
from mmrs.adapters.sb3.callback import RewardCallback
from mmrs.adapters.sb3.observations import ObsRecorder
from mmrs.errors import InputError, MissingExtraError
from mmrs.rollout import Rollout

try:
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.utils import obs_as_tensor
except ImportError as error:
    raise MissingExtraError("stable-baselines3", "sb3") from error

Values = NDArray[Any]


class BonusCallback(RewardCallback):
    """Adds a bonus to the rewards of each rollout before the algorithm learns from them.

    Stable-Baselines3 calls back after it has computed returns and advantages. This callback therefore adds the bonus
    to ``rollout_buffer.rewards`` and recomputes them: the bonus is discounted and bootstrapped like any reward.

    Example:
        >>> model = PPO("MlpPolicy", env)
        >>> model.learn(100_000, callback=BonusCallback("mmrs", weight=0.1))
    """

    def __init__(
        self,
        reward: RewardSource,
        *,
        weight: float = 1.0,
        observations: Literal["policy", "original"] = "policy",
        obs_key: str | None = None,
        verbose: int = 0,
    ) -> None:
        """Args:
        reward: a reward, its registered name, or a function from (observation space, action space) to a reward.
        weight: factor of the bonus, which is added to the reward after VecNormalize, if that is used.
        observations: what the bonus sees under VecNormalize: the normalized observations of the "policy", or the
            "original" ones.
        obs_key: key of the Dict observation entry that the bonus sees.
        verbose: as in every callback of Stable-Baselines3.
        """
        super().__init__(reward, weight, verbose)
        self._obs_recorder = ObsRecorder(observations, obs_key)

    # --- what Stable-Baselines3 calls -------------------------------------------------------------------------------

    def _init_callback(self) -> None:
        if not isinstance(self.model, OnPolicyAlgorithm):
            raise InputError(
                f"BonusCallback works with on-policy algorithms (PPO, A2C, TRPO, RecurrentPPO, MaskablePPO), and this "
                f"is {type(self.model).__name__}. For DQN, SAC and TD3 use ReplayBonusCallback."
            )
        self._obs_recorder.attach(self.model)
        self.attach_reward(self._obs_recorder.space, self.model.action_space)

    def _on_training_start(self) -> None:
        starts = self.model._last_episode_starts
        if starts is not None and np.all(starts):
            self.reward_host.reset_episodes()

    def _on_rollout_start(self) -> None:
        self._obs_recorder.begin()
        self._timed_out: list[tuple[int, int, np.float32, Any]] = []

    def _on_step(self) -> bool:
        # Called at every step, so it leaves everything else to the end of the rollout.
        self._obs_recorder.step()
        dones = self.locals["dones"]
        if dones.any():
            self._note_ends(np.flatnonzero(dones).tolist())
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer
        rollout = self._rollout()
        bonus, metrics = self.reward_host.compute(rollout)
        metrics["extrinsic"] = self._extrinsic(buffer)
        self._add_bonus(buffer, bonus)
        buffer.compute_returns_and_advantage(last_values=self._last_values(), dones=self.model._last_episode_starts)
        metrics |= self.reward_host.update(rollout)
        self.log(metrics)

    # --- parts ------------------------------------------------------------------------------------------------------

    def _note_ends(self, ended: list[int]) -> None:
        step, infos = self.model.rollout_buffer.pos, self.locals["infos"]
        for i in ended:
            last = self._obs_recorder.ended(i, infos[i])
            if infos[i].get("TimeLimit.truncated", False):
                self._timed_out.append((step, i, np.float32(self.locals["rewards"][i]), last))

    def _rollout(self) -> Rollout:
        buffer = self.model.rollout_buffer
        steps = (buffer.buffer_size, buffer.n_envs)
        done = np.concatenate([buffer.episode_starts[1:], self.model._last_episode_starts[None]]).astype(bool)
        truncated = np.zeros(steps, bool)
        for step, i, _, _ in self._timed_out:
            truncated[step, i] = True
        return Rollout(
            obs=self._obs_recorder.observations(),
            actions=buffer.actions.reshape(*steps, *self.model.action_space.shape),
            terminated=done & ~truncated,
            truncated=truncated,
            final_obs=self._obs_recorder.final_observations(),
        )

    def _extrinsic(self, buffer: Any) -> float:
        """Mean extrinsic reward, without the values that the buffer includes at time limits."""
        rewards = buffer.rewards.copy()
        for step, i, reward, _ in self._timed_out:
            rewards[step, i] = reward
        return float(np.mean(rewards))

    def _add_bonus(self, buffer: Any, bonus: NDArray[np.float32]) -> None:
        """Add the bonus as if the environment had returned it.

        At a time limit, Stable-Baselines3 has already added the value of the last state to the reward. Rounded sums
        depend on their order, so the sum is recomputed there: reward + bonus first, then the value.
        """
        before = buffer.rewards.copy()
        buffer.rewards += bonus
        for step, i, reward, last in self._timed_out:
            value = self._bootstrap(last)
            # Recurrent values need a hidden state that is gone; all others can be recomputed exactly.
            if value is not None and np.float32(reward + value) == before[step, i]:
                buffer.rewards[step, i] = np.float32(reward + bonus[step, i]) + value

    def _bootstrap(self, last: Values) -> np.float32 | None:
        if getattr(self.model, "_last_lstm_states", None) is not None:
            return None
        with torch.no_grad():
            value = self.model.policy.predict_values(self.model.policy.obs_to_tensor(last)[0])[0]
        return np.float32((self.model.gamma * value).item())

    def _last_values(self) -> torch.Tensor:
        """Values of the states after the last step, for every kind of policy.

        ``self.locals["values"]`` is right for PPO, but RecurrentPPO and MaskablePPO leave an older value there.
        """
        model = self.model
        obs = obs_as_tensor(model._last_obs, model.device)
        memory = getattr(model, "_last_lstm_states", None)
        with torch.no_grad():
            if memory is None:
                return model.policy.predict_values(obs)  # type: ignore[no-any-return]
            starts = torch.tensor(model._last_episode_starts, dtype=torch.float32, device=model.device)
            return model.policy.predict_values(obs, memory.vf, starts)  # type: ignore[no-any-return]
