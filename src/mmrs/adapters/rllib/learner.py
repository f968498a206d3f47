"""RLlib, new API stack: a PPO learner whose first connector adds a bonus to the episodes, before GAE sees them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from gymnasium import spaces

from mmrs.adapters.host import HostedReward, RewardSource, build_reward
from mmrs.adapters.rllib.episodes import Layout, Piece, join, lay_out
from mmrs.adapters.rllib.memory import EpisodeMemory
from mmrs.adapters.transitions import remembers
from mmrs.errors import InputError, MissingExtraError, near_matches
from mmrs.rewards import REWARDS, IntrinsicReward

try:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode
except ImportError as error:
    raise MissingExtraError("ray with RLlib's dependencies", "rllib") from error

SETTINGS = "mmrs"
"""Key of the settings in ``config.learner_config_dict``, of the state in checkpoints and of the metrics."""


@dataclass(frozen=True)
class BonusSettings:
    """What a learner needs to make the bonus."""

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
    """The PPO config with a bonus: call it last, as ``with_bonus(config, "rnd", weight=0.1).build_algo()``.

    Args:
        config: a ``PPOConfig`` of the new API stack, single-agent.
        reward: a name of the registry, or a function from (observation space, action space) to a reward. A reward
            that exists already works too, but travels to every learner and into checkpoints with the config.
        weight: factor of the bonus.
        observation_space: of the observations that episodes hold; default: the RLModule's. They differ where an
            env-to-module connector changes the batch but not the episodes (FlattenObservations).
        action_space: of the actions in the episodes; default: the RLModule's.
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
    settings = BonusSettings(_factory(reward), weight, observation_space, action_space)
    return config.training(learner_config_dict={**config.learner_config_dict, SETTINGS: settings})


def _factory(reward: RewardSource) -> RewardSource:
    """Look a name up here: learners in other processes do not know what was registered in this one."""
    if not isinstance(reward, str):
        return reward
    if reward not in REWARDS:
        raise InputError(f"there is no reward {reward!r}. {near_matches(reward, REWARDS)}")
    return REWARDS[reward]


class BonusConnector(ConnectorV2):
    """Adds the bonus to the rewards of episodes, then trains the reward on them.

    It stands before RLlib's own connectors, so it sees episodes as they were sampled: no artificial last step, and
    the end of a fragment told from the end of an episode. With several learners each sees the episodes of all:
    fragments of one episode land on different learners, and rewards that see the same stay equal to the bit.
    """

    def __init__(self, reward: IntrinsicReward, weight: float) -> None:
        super().__init__()
        self.hosted = HostedReward(reward, weight)
        self.memory = EpisodeMemory(reward)
        # A causal reward is exact over fragments of an episode; another asks for the whole batch at once.
        self._exact = reward.causal and remembers(reward)

    def __call__(self, *, episodes: list[Any], batch: Any = None, metrics: Any = None, **_: Any) -> Any:
        """Pay for the episodes of this learner."""
        episodes = [episode for episode in episodes if len(episode)]
        own = [_piece(episode) for episode in episodes]
        pieces, first = _from_all_learners(own)
        if not pieces:
            return batch
        joined, places = join(pieces)
        bonus = self._pay(joined)
        for i, episode in enumerate(episodes):
            number, at = places[first + i]
            _add(episode, bonus[number][at : at + len(own[i])])
        learned = self.hosted.learn(lay_out(joined, exact=False)[0].rollout)
        if metrics is not None:
            paid = {"bonus": float(np.mean(np.concatenate(bonus)))}
            for name, value in {**paid, **learned}.items():
                metrics.log_value((SETTINGS, name), value, window=1)
        return batch

    def _pay(self, pieces: list[Piece]) -> list[Any]:
        paid: dict[int, Any] = {}
        for layout in lay_out(pieces, exact=self._exact):
            paid |= layout.split(self._compute(layout, pieces))
        self.memory.end_batch([piece.episode for piece in pieces if piece.ended])
        return [paid[number] for number in range(len(pieces))]

    def _compute(self, layout: Layout, pieces: list[Piece]) -> Any:
        heads, tails = (([pieces[column[end]] for column in layout.columns]) for end in (0, -1))
        self.hosted.memory = self.memory.collect(
            [piece.episode if piece.start else None for piece in heads], self.hosted.device
        )
        bonus, _ = self.hosted.pay(layout.rollout)
        going_on = [None if piece.ended else piece.episode for piece in tails]
        self.memory.store(self.hosted.memory, going_on)
        return bonus

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Reward, optimiser, generator and memory, as bytes that hold no code."""
        buffer = io.BytesIO()
        torch.save({"reward": self.hosted.reward.state_dict(), "memory": self.memory.state_dict()}, buffer)
        return {"bytes": buffer.getvalue()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what `get_state` gave."""
        read = torch.load(io.BytesIO(state["bytes"]), map_location=self.hosted.device, weights_only=True)
        self.hosted.reward.load_state_dict(read["reward"])
        self.memory.load_state_dict(read["memory"])


class BonusLearner(PPOTorchLearner):
    """PPO's learner with the bonus as its first connector, and the bonus in its state.

    RLlib leaves learner connectors out of checkpoints, so the learner carries this one's state itself.
    """

    bonus: BonusConnector

    def build(self) -> None:
        """Build the learner, then put the bonus before all connectors."""
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
        """The learner's state and the bonus's."""
        state = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(SETTINGS, components, not_components):
            state[SETTINGS] = self.bonus.get_state()
        return state

    def set_state(self, state: Any) -> None:
        """Restore both."""
        super().set_state(state)
        if SETTINGS in state:
            self.bonus.set_state(state[SETTINGS])


def _piece(episode: Any) -> Piece:
    if not isinstance(episode, SingleAgentEpisode):
        raise InputError(f"the bonus needs single-agent episodes, and this is a {type(episode).__name__}.")
    obs, actions = (np.asarray(values) for values in (episode.get_observations(), episode.get_actions()))
    if obs.dtype == object:
        raise InputError(
            "the episodes hold observations that are no arrays of numbers (a Dict or Tuple space?). Flatten them in "
            "the environment, for example with gymnasium.wrappers.FlattenObservation."
        )
    return Piece(episode.id_, episode.t_started, obs, actions, episode.is_terminated, episode.is_truncated)


def _add(episode: Any, bonus: Any) -> None:
    rewards = np.asarray(episode.get_rewards())
    kind = rewards.dtype if np.issubdtype(rewards.dtype, np.floating) else np.float32
    total = rewards.astype(kind) + bonus.astype(kind)
    if episode.is_numpy:
        episode.rewards.data = np.array(episode.rewards.data, kind)  # from the object store it comes read-only
    episode.set_rewards(new_data=total if episode.is_numpy else list(total))


def _from_all_learners(own: list[Piece]) -> tuple[list[Piece], int]:
    """The pieces of every learner in one order, and where one's own begin."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return own, 0
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    return [piece for pieces in everyone for piece in pieces], sum(map(len, everyone[: dist.get_rank()]))
