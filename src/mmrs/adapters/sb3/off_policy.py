"""Stable-Baselines3, off-policy: a replay buffer that pays a bonus (DQN, SAC, TD3) and the callback that trains it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from mmrs.adapters.host import RewardSource
from mmrs.adapters.sb3.callback import HostingCallback
from mmrs.adapters.sb3.observations import Observer
from mmrs.adapters.transitions import StepLog, remembers, transitions
from mmrs.errors import InputError, MissingExtraError, UnsupportedSpaceError
from mmrs.rewards import require_causal

try:
    from stable_baselines3.common.buffers import ReplayBuffer
    from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
except ImportError as error:
    raise MissingExtraError("stable-baselines3", "sb3") from error

Values = NDArray[Any]


class BonusReplayBuffer(ReplayBuffer):
    """A replay buffer that shows its transitions to a `ReplayBonusCallback`; without one it is a plain buffer."""

    bonus: ReplayBonusCallback | None = None

    def __init__(self, buffer_size: int, observation_space: Any, action_space: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(observation_space, spaces.Dict):
            raise UnsupportedSpaceError(
                "BonusReplayBuffer holds one array an observation, and these are a Dict with the entries "
                f"{sorted(observation_space.spaces)}. Wrap the environment with gymnasium.wrappers.FlattenObservation."
            )
        super().__init__(buffer_size, observation_space, action_space, *args, **kwargs)

    def add(self, obs: Values, next_obs: Values, action: Values, reward: Values, done: Values, infos: Any) -> None:
        """Store a step; `next_obs` is the true successor, also where an episode ended."""
        if self.bonus is not None:
            truncated = np.array([info.get("TimeLimit.truncated", False) for info in infos], bool)
            reward = reward + self.bonus.collected(obs, next_obs, action, np.asarray(done, bool), truncated)
        super().add(obs, next_obs, action, reward, done, infos)

    def _get_samples(self, batch_inds: Values, env: Any = None) -> Any:
        if self.bonus is None or self.bonus.when == "store":
            return super()._get_samples(batch_inds, env)
        original = super()._get_samples(batch_inds, None)
        seen = original if env is None else self._normalised(original, env)
        bonus = self.bonus.relabelled(original if self.bonus.observations == "original" else seen)
        return seen._replace(rewards=seen.rewards + bonus.to(seen.rewards))

    def _normalised(self, samples: Any, env: Any) -> Any:
        """Samples as they come out under VecNormalize, which was held back to see the original ones first."""
        obs, next_obs = (
            self.to_torch(self._normalize_obs(values.cpu().numpy(), env))
            for values in (samples.observations, samples.next_observations)
        )
        rewards = self.to_torch(self._normalize_reward(samples.rewards.cpu().numpy(), env))
        return samples._replace(observations=obs, next_observations=next_obs, rewards=rewards)

    def __getstate__(self) -> dict[str, Any]:
        """A saved buffer holds transitions alone; the bonus has its own file."""
        return {name: value for name, value in self.__dict__.items() if name != "bonus"}


class ReplayBonusCallback(HostingCallback):
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
        reward: a causal reward: its name, itself, or a function from (observation space, action space) to it.
        weight: factor of the bonus. Under VecNormalize a bonus at "sample" is added to the normalised reward, one at
            "store" to the original reward.
        when: "sample" pays each sampled transition what it is worth to the reward as trained now, for rewards that
            remember nothing (rnd). "store" pays once, when the step is collected, and suits every causal reward.
        train_every: steps, summed over environments, between two trainings of the reward on what was collected.
        observations: what the bonus sees under VecNormalize: the "original" observations, or (at "sample" only, as the
            buffer stores originals) the normalised ones of the "policy".
        verbose: as for every callback of Stable-Baselines3.
        """
        super().__init__(reward, weight, verbose)
        if when not in ("sample", "store"):
            raise InputError(f"when={when!r}: expected 'sample' or 'store'.")
        if train_every < 1:
            raise InputError(f"train_every={train_every}: expected at least 1 step.")
        if when == "store" and observations == "policy":
            raise InputError("observations='policy' needs when='sample': the buffer stores original observations.")
        self.when, self.train_every, self.observations = when, train_every, observations
        self._observer = Observer(observations, None)
        self._log = StepLog()

    # --- what Stable-Baselines3 calls -------------------------------------------------------------------------------

    def _init_callback(self) -> None:
        if not isinstance(self.model, OffPolicyAlgorithm):
            raise InputError(
                f"ReplayBonusCallback works with off-policy algorithms (DQN, SAC, TD3), and this is "
                f"{type(self.model).__name__}. For PPO, A2C and their kin use mmrs.adapters.sb3.BonusCallback."
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
                "with optimize_memory_usage=True the buffer forgets the last state of an episode and shows the next "
                "one's first instead, so a bonus paid when sampled would be that of the wrong state. Use when='store' "
                "or optimize_memory_usage=False."
            )
        self._observer.attach(self.model)
        self.host(self._observer.space, self.model.action_space)
        require_causal(self.reward, "an off-policy algorithm")
        if self.when == "sample" and remembers(self.reward):
            raise InputError(
                f"{type(self.reward).__name__} remembers what happened before a step (counts, embeddings or a scale), "
                "and a transition drawn from the replay buffer has no such past. Use when='store', or a reward that "
                "remembers nothing, such as rnd."
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

    def collected(self, obs: Values, next_obs: Values, action: Values, done: Values, truncated: Values) -> Values:
        """Take note of a step of N environments; returns what it is paid now, ``[N]``: 0 if paid when sampled."""
        shape = (len(done), *(self._observer.space.shape or ()))
        seen = [self._seen(values).reshape(shape) for values in (obs, next_obs)]
        taken = self._taken(torch.tensor(action))
        step = transitions(np.array(seen[0]), np.array(seen[1]), taken, done & ~truncated, done & truncated)
        if not self._log.follows(seen[0]):
            self.hosted.restart()
        self._log.add(step)
        paid = np.zeros(len(done), np.float32)
        if self.when == "store":
            bonus, metrics = self.hosted.pay(step)
            paid = bonus[0]
            self.log(metrics)
        if len(self._log) >= self.train_every:
            self.log(self.hosted.learn(self._log.take()))
        return paid

    def _seen(self, obs: Values) -> Values:
        """Observations as the bonus sees them when sampled, so that it is trained on the same."""
        normalize = self.model.get_vec_normalize_env() if self.observations == "policy" else None
        return obs if normalize is None else np.asarray(normalize.normalize_obs(obs))

    def _taken(self, actions: Tensor) -> Tensor:
        """Actions ``[B, *act]`` in the units of the action space: the buffer holds those of a Box from -1 to 1."""
        space = self.model.action_space
        actions = actions.reshape(len(actions), *space.shape)
        if not isinstance(space, spaces.Box):
            return actions
        low, high = (torch.as_tensor(bound, device=actions.device) for bound in (space.low, space.high))
        return low + 0.5 * (actions + 1.0) * (high - low)

    def relabelled(self, samples: Any) -> Tensor:
        """Bonus ``[B, 1]`` of sampled transitions, with the reward as it is now."""
        batch = len(samples.rewards)
        shape = (batch, *(self._observer.space.shape or ()))
        # The buffer hides time limits from the learner; to a reward that remembers nothing they make no difference.
        ended = samples.dones.reshape(batch).bool()
        rollout = transitions(
            samples.observations.reshape(shape),
            samples.next_observations.reshape(shape),
            self._taken(samples.actions),
            ended,
            torch.zeros_like(ended),
        )
        bonus = self.hosted.weight * self.reward.compute(rollout.to(self.hosted.device))[0]
        self.logger.record_mean("mmrs/bonus", float(bonus.mean()))
        return bonus.reshape(batch, 1)

    def extra_state(self) -> dict[str, Any]:
        """Steps not trained on yet."""
        return self._log.state_dict()

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Go on with those steps."""
        self._log.load_state_dict(state)
