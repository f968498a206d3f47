"""Stable-Baselines3, off-policy: a replay buffer that adds a bonus (DQN, SAC, TD3) and its callback."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from mmrs.adapters.host import RewardSource
from mmrs.adapters.sb3.callback import RewardCallback
from mmrs.adapters.sb3.observations import ObsRecorder
from mmrs.adapters.transitions import StepBuffer, has_memory, transitions
from mmrs.errors import InputError, MissingExtraError, UnsupportedSpaceError
from mmrs.rewards import require_causal

try:
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
except ImportError as error:
    raise MissingExtraError("stable-baselines3", "sb3") from error

Values = NDArray[Any]


class BonusReplayBuffer(ReplayBuffer):
    """A replay buffer that gets its bonus from a `ReplayBonusCallback`; without one it is a plain buffer."""

    bonus: ReplayBonusCallback | None = None

    def __init__(self, buffer_size: int, observation_space: Any, action_space: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(observation_space, spaces.Dict):
            raise UnsupportedSpaceError(
                "BonusReplayBuffer holds one array per observation, and these are a Dict with the entries "
                f"{sorted(observation_space.spaces)}. Wrap the environment with gymnasium.wrappers.FlattenObservation."
            )
        super().__init__(buffer_size, observation_space, action_space, *args, **kwargs)

    def add(self, obs: Values, next_obs: Values, action: Values, reward: Values, done: Values, infos: Any) -> None:
        """Store a step; `next_obs` is the true successor, also at the end of an episode."""
        if self.bonus is not None:
            truncated = np.array([info.get("TimeLimit.truncated", False) for info in infos], bool)
            reward = reward + self.bonus.record_step(obs, next_obs, action, np.asarray(done, bool), truncated)
        super().add(obs, next_obs, action, reward, done, infos)

    def _get_samples(self, batch_inds: Values, env: Any = None) -> Any:
        if self.bonus is None or self.bonus.when == "store":
            return super()._get_samples(batch_inds, env)
        original = super()._get_samples(batch_inds, None)
        seen = original if env is None else self._normalize_samples(original, env)
        bonus = self.bonus.compute_bonus(original if self.bonus.observations == "original" else seen)
        return seen._replace(rewards=seen.rewards + bonus.to(seen.rewards))

    def _normalize_samples(self, samples: Any, env: Any) -> Any:
        """Samples normalized by VecNormalize, which was left out at first to get the original ones."""
        obs, next_obs = (
            self.to_torch(self._normalize_obs(values.cpu().numpy(), env))
            for values in (samples.observations, samples.next_observations)
        )
        rewards = self.to_torch(self._normalize_reward(samples.rewards.cpu().numpy(), env))
        return samples._replace(observations=obs, next_observations=next_obs, rewards=rewards)

    def __getstate__(self) -> dict[str, Any]:
        """A saved buffer holds transitions alone; the bonus has its own file."""
        return {name: value for name, value in self.__dict__.items() if name != "bonus"}


class ReplayBonusCallback(RewardCallback):
    """Pays a causal reward in DQN, SAC or TD3 and trains it on what is collected.

    Example:
        >>> model = DQN("MlpPolicy", env, replay_buffer_class=BonusReplayBuffer)
        >>> model.learn(100_000, callback=ReplayBonusCallback("rnd", weight=0.1))
    """

    def __init__(
        self,
        reward: RewardSource,
        *,
        weight: float = 1.0,
        when: Literal["sample", "store"] = "sample",
        train_every: int = 256,
        observations: Literal["policy", "original"] = "original",
        verbose: int = 0,
    ) -> None:
        """Args:
        reward: a causal reward, its name, or a function from (observation space, action space) to it.
        weight: factor of the bonus. Under VecNormalize, a bonus at "sample" is added to the normalized reward, one at
            "store" to the original reward.
        when: "sample" computes the bonus of each sampled transition with the reward as it is trained by then; for
            rewards without memory (rnd). "store" computes it once, when the step is collected; for any causal reward.
        train_every: steps, summed over environments, between two updates of the reward.
        observations: what the bonus sees under VecNormalize: the "original" observations, or (at "sample" only, as the
            buffer stores originals) the normalized ones of the "policy".
        verbose: as in every callback of Stable-Baselines3.
        """
        super().__init__(reward, weight, verbose)
        if when not in ("sample", "store"):
            raise InputError(f"when={when!r}: expected 'sample' or 'store'.")
        if train_every < 1:
            raise InputError(f"train_every={train_every}: expected at least 1 step.")
        if when == "store" and observations == "policy":
            raise InputError("observations='policy' needs when='sample': the buffer stores original observations.")
        self.when, self.train_every, self.observations = when, train_every, observations
        self._obs_recorder = ObsRecorder(observations, None)
        self._step_buffer = StepBuffer()

    # --- what Stable-Baselines3 calls -------------------------------------------------------------------------------

    def _init_callback(self) -> None:
        if not isinstance(self.model, OffPolicyAlgorithm):
            raise InputError(
                f"ReplayBonusCallback works with off-policy algorithms (DQN, SAC, TD3), and this is "
                f"{type(self.model).__name__}. For PPO, A2C and other on-policy ones use mmrs.adapters.sb3."
                "BonusCallback."
            )
        buffer = self.model.replay_buffer
        if not isinstance(buffer, BonusReplayBuffer):
            raise InputError(
                f"the model's replay buffer is a {type(buffer).__name__}, expected a BonusReplayBuffer. Make the model "
                "with replay_buffer_class=mmrs.adapters.sb3.BonusReplayBuffer. Hindsight replay (HER), n-step "
                "returns and Dict observations need buffers of their own and are not supported."
            )
        if self.when == "sample" and buffer.optimize_memory_usage:
            raise InputError(
                "with optimize_memory_usage=True the buffer returns the first state of the next episode instead of "
                "the last one of an episode, so the bonus would be computed of a wrong state. Use when='store' "
                "or optimize_memory_usage=False."
            )
        self._obs_recorder.attach(self.model)
        self.attach_reward(self._obs_recorder.space, self.model.action_space)
        require_causal(self.reward, "an off-policy algorithm")
        if self.when == "sample" and has_memory(self.reward):
            raise InputError(
                f"{type(self.reward).__name__} has a memory of the steps before (counts, embeddings or a scale), and "
                "a transition sampled from the replay buffer comes without those steps. Use when='store', or a reward "
                "without memory, such as rnd."
            )

    def _on_training_start(self) -> None:
        if self.model.replay_buffer.bonus not in (None, self):
            raise InputError(
                "the replay buffer already has a bonus. Add several rewards with mmrs.Sum in one callback; if the "
                "other one is left from a training that failed, set model.replay_buffer.bonus = None."
            )
        self.model.replay_buffer.bonus = self

    def _on_training_end(self) -> None:
        self.model.replay_buffer.bonus = None

    def _on_step(self) -> bool:
        return True

    # --- what the buffer calls --------------------------------------------------------------------------------------

    def record_step(self, obs: Values, next_obs: Values, action: Values, done: Values, truncated: Values) -> Values:
        """Record a step of N environments; returns the bonus to store with it, ``[N]``: 0 at when="sample"."""
        shape = (len(done), *(self._obs_recorder.space.shape or ()))
        before, after = (np.array(self._bonus_obs(values).reshape(shape)) for values in (obs, next_obs))
        env_actions = self._env_units(torch.tensor(action))
        step = transitions(before, after, env_actions, done & ~truncated, done & truncated)
        if not self._step_buffer.is_continuation(before):
            self.reward_host.reset_episodes()
        self._step_buffer.add(step)
        stored = np.zeros(len(done), np.float32)
        if self.when == "store":
            bonus, metrics = self.reward_host.compute(step)
            stored = bonus[0]
            self.log(metrics)
        if len(self._step_buffer) >= self.train_every:
            self.log(self.reward_host.update(self._step_buffer.take()))
        return stored

    def _bonus_obs(self, obs: Values) -> Values:
        """Observations as the bonus sees them when sampled, so that it is also trained on them."""
        normalize = self.model.get_vec_normalize_env() if self.observations == "policy" else None
        return obs if normalize is None else np.asarray(normalize.normalize_obs(obs))

    def _env_units(self, actions: Tensor) -> Tensor:
        """Actions ``[B, *act]`` in the units of the action space: the buffer scales those of a Box to [-1, 1]."""
        space = self.model.action_space
        actions = actions.reshape(len(actions), *space.shape)
        if not isinstance(space, spaces.Box):
            return actions
        low, high = (torch.as_tensor(bound, device=actions.device) for bound in (space.low, space.high))
        return low + 0.5 * (actions + 1.0) * (high - low)

    def compute_bonus(self, samples: Any) -> Tensor:
        """Bonus ``[B, 1]`` of sampled transitions, with the reward as it is now."""
        batch = len(samples.rewards)
        shape = (batch, *(self._obs_recorder.space.shape or ()))
        # The buffer hides time limits from the learner; a reward without memory does not depend on them.
        ended = samples.dones.reshape(batch).bool()
        rollout = transitions(
            samples.observations.reshape(shape),
            samples.next_observations.reshape(shape),
            self._env_units(samples.actions),
            ended,
            torch.zeros_like(ended),
        )
        bonus = self.reward_host.weight * self.reward.compute(rollout.to(self.reward_host.device))[0]
        self.logger.record_mean("mmrs/bonus", float(bonus.mean()))
        return bonus.reshape(batch, 1)

    def extra_state(self) -> dict[str, Any]:
        """The steps of the next update."""
        return self._step_buffer.state_dict()

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Continue with those steps."""
        self._step_buffer.load_state_dict(state)
