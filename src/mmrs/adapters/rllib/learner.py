"""RLlib, new API stack: a PPO learner whose first connector adds a bonus to the episodes before GAE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch.distributed as dist
from gymnasium import spaces

from mmrs.adapters.host import RewardHost, RewardSource, build_reward, to_device
from mmrs.adapters.rllib.episodes import Chunk, PackedChunks, merge_chunks, pack_chunks
from mmrs.adapters.rllib.memory import EpisodeMemory
from mmrs.adapters.transitions import has_memory
from mmrs.errors import InputError, MissingExtraError, StorageError
from mmrs.rewards import IntrinsicReward
from mmrs.rewards.registry import find
from mmrs.storage import state_file

try:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode
except ImportError as error:
    raise MissingExtraError("ray with RLlib's dependencies", "rllib") from error

SETTINGS = "mmrs"
"""Key of the settings in ``config.learner_config_dict``, of the state in checkpoints, and of the metrics."""


@dataclass(frozen=True)
class BonusSettings:
    """Settings from which each learner makes the bonus."""

    reward: RewardSource
    weight: float
    observation_space: spaces.Space[Any] | None
    action_space: spaces.Space[Any] | None


def with_bonus(
    config: Any,
    reward: RewardSource,
    *,
    weight: float = 1.0,
    observation_space: spaces.Space[Any] | None = None,
    action_space: spaces.Space[Any] | None = None,
) -> Any:
    """Add a bonus to a PPO config. Call it last: ``with_bonus(config, "rnd", weight=0.1).build_algo()``.

    Args:
        config: a ``PPOConfig`` of the new API stack, single-agent.
        reward: a registered name, or a function from (observation space, action space) to a reward. An existing
            reward works too, but is copied to every learner and into checkpoints with the config.
        weight: factor of the bonus.
        observation_space: space of the observations in the episodes; default: the RLModule's. They differ if an
            env-to-module connector changes the batch but not the episodes (FlattenObservations).
        action_space: space of the actions in the episodes; default: the RLModule's.
    """
    if not isinstance(config, PPOConfig):
        raise InputError(
            f"with_bonus works with PPOConfig, and this is {type(config).__name__}. Off-policy algorithms of RLlib are "
            "not supported; for DQN and SAC see mmrs.adapters.sb3."
        )
    if not config.enable_rl_module_and_learner:
        raise InputError("with_bonus needs RLlib's new API stack: config.api_stack(enable_rl_module_and_learner=True).")
    if config.is_multi_agent:
        raise InputError("with_bonus is for single-agent environments, and this config is multi-agent.")
    base = config.learner_class
    if not issubclass(base, PPOTorchLearner):
        raise InputError(f"the config's learner is {base.__name__}, expected PPOTorchLearner or a subclass of it.")
    if not issubclass(base, BonusLearner):
        own = type(f"Bonus{base.__name__}", (BonusLearner, base), {}) if base is not PPOTorchLearner else BonusLearner
        config.training(learner_class=own)
    settings = BonusSettings(_resolve_name(reward), weight, observation_space, action_space)
    return config.training(learner_config_dict={**config.learner_config_dict, SETTINGS: settings})


def _resolve_name(reward: RewardSource) -> RewardSource:
    """Look a name up now, because learners in other processes do not know rewards registered in this one."""
    if not isinstance(reward, str):
        return reward
    return find(reward).factory


class BonusConnector(ConnectorV2):
    """Adds the bonus to the rewards of episodes, then trains the reward on them.

    It comes before RLlib's own connectors, so episodes are as they were sampled: they have no artificial last step,
    and the end of a fragment differs from the end of an episode. With several learners, each gets the episodes of
    all, because the fragments of one episode may reach different learners. Their rewards then stay bit-identical.
    """

    def __init__(self, reward: IntrinsicReward, weight: float) -> None:
        super().__init__()
        self.reward_host = RewardHost(reward, weight)
        self.memory = EpisodeMemory(reward)
        # A causal reward is exact over fragments of an episode; others need the whole batch at once.
        self._exact = reward.causal and has_memory(reward)

    def __call__(self, *, episodes: list[Any], batch: Any = None, metrics: Any = None, **_: Any) -> Any:
        """Add the bonus to the episodes of this learner."""
        episodes = [episode for episode in episodes if len(episode)]
        own = [_to_chunk(episode) for episode in episodes]
        chunks, first = _gather_chunks(own)
        if not chunks:
            return batch
        merged, positions = merge_chunks(chunks)
        bonus = self._bonus(merged)
        for i, episode in enumerate(episodes):
            index, at = positions[first + i]
            _add_bonus(episode, bonus[index][at : at + len(own[i])])
        learned = self.reward_host.update(pack_chunks(merged, exact=False)[0].rollout)
        if metrics is not None:
            mean = {"bonus": float(np.mean(np.concatenate(bonus)))}
            for name, value in {**mean, **learned}.items():
                metrics.log_value((SETTINGS, name), value, window=1)
        return batch

    def _bonus(self, chunks: list[Chunk]) -> list[Any]:
        """The bonus of each chunk, ``[L]``."""
        bonus: dict[int, Any] = {}
        for pack in pack_chunks(chunks, exact=self._exact):
            bonus |= pack.split(self._compute(pack, chunks))
        self.memory.end_batch([chunk.episode for chunk in chunks if chunk.ended])
        return [bonus[i] for i in range(len(chunks))]

    def _compute(self, pack: PackedChunks, chunks: list[Chunk]) -> Any:
        heads, tails = (([chunks[column[end]] for column in pack.columns]) for end in (0, -1))
        self.reward_host.memory = self.memory.collect(
            [chunk.episode if chunk.start else None for chunk in heads], self.reward_host.device
        )
        bonus, _ = self.reward_host.compute(pack.rollout)
        unfinished = [None if chunk.ended else chunk.episode for chunk in tails]
        self.memory.store(self.reward_host.memory, unfinished)
        return bonus

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Reward, optimizer, generator and memory, as bytes that hold no code."""
        reward = self.reward_host.reward
        return {"bytes": state_file.to_bytes({"reward": reward.state_dict(), "memory": self.memory.state_dict()})}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what `get_state` returned."""
        try:
            saved = state_file.from_bytes(state["bytes"])
        except StorageError as error:
            raise InputError(
                f"the bonus in the checkpoint cannot be read: {error} Use another checkpoint; one of an older version "
                "has to be made anew, by training with this version."
            ) from error
        self.reward_host.reward.load_state_dict(saved["reward"])
        self.memory.load_state_dict(to_device(saved["memory"], self.reward_host.device))


class BonusLearner(PPOTorchLearner):
    """PPO's learner with the bonus as its first connector.

    RLlib leaves learner connectors out of checkpoints, so the learner's own state includes the bonus.
    """

    bonus: BonusConnector

    def build(self) -> None:
        """Build the learner, then insert the bonus before all connectors."""
        if self._is_built:
            return
        super().build()
        settings: BonusSettings = self.config.learner_config_dict[SETTINGS]
        module = self.module[DEFAULT_MODULE_ID]
        observation_space = settings.observation_space or module.observation_space
        reward = build_reward(settings.reward, observation_space, settings.action_space or module.action_space)
        self.bonus = BonusConnector(reward, settings.weight)
        self._learner_connector.prepend(self.bonus)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> Any:
        """The state of the learner and of the bonus."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(SETTINGS, components, not_components):
            state[SETTINGS] = self.bonus.get_state()
        return state

    def set_state(self, state: Any) -> None:
        """Restore both."""
        super().set_state(state)
        if SETTINGS in state:
            self.bonus.set_state(state[SETTINGS])


def _to_chunk(episode: Any) -> Chunk:
    if not isinstance(episode, SingleAgentEpisode):
        raise InputError(f"the bonus needs single-agent episodes, and this is a {type(episode).__name__}.")
    obs, actions = (np.asarray(values) for values in (episode.get_observations(), episode.get_actions()))
    if obs.dtype == object:
        raise InputError(
            "the observations of the episodes are not numeric arrays (a Dict or Tuple space?). Flatten them in "
            "the environment, for example with gymnasium.wrappers.FlattenObservation."
        )
    return Chunk(episode.id_, episode.t_started, obs, actions, episode.is_terminated, episode.is_truncated)


def _add_bonus(episode: Any, bonus: Any) -> None:
    rewards = np.asarray(episode.get_rewards())
    dtype = rewards.dtype if np.issubdtype(rewards.dtype, np.floating) else np.float32
    total = rewards.astype(dtype) + bonus.astype(dtype)
    if episode.is_numpy:
        episode.rewards.data = np.array(episode.rewards.data, dtype)  # a copy: the object store's array is read-only
    episode.set_rewards(new_data=total if episode.is_numpy else list(total))


def _gather_chunks(own: list[Chunk]) -> tuple[list[Chunk], int]:
    """The chunks of all learners in the same order everywhere, and the index of this learner's first."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return own, 0
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    return [chunk for chunks in everyone for chunk in chunks], sum(map(len, everyone[: dist.get_rank()]))
