"""The training loop, Algorithm 1: collect, reward, advantages, update."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from mmrs.envs.base import ResumableVectorEnv
from mmrs.errors import TrainingError
from mmrs.functional.fairness import jain_index
from mmrs.nets.actor_critic import ActorCritic
from mmrs.nets.cuda_graphs import CudaGraphed
from mmrs.nets.encoders import seeded_init
from mmrs.nets.normalization import ObsNormalizer, RunningScale
from mmrs.ppo.advantages import Advantages, MixingConfig, mixed_advantages
from mmrs.ppo.collector import Collector, RolloutData
from mmrs.ppo.metrics import learning_metrics, reward_metrics, to_floats
from mmrs.ppo.ppo import PPO, Batch, Loss, PPOConfig, ppo_loss
from mmrs.rewards.base import IntrinsicReward, Memory, Terms
from mmrs.spaces import action_spec, observation_spec

Row = dict[str, Any]
WINDOW = 100
"""Episodes, or games, that the reported means are taken over."""


class Trainer:
    """PPO with an intrinsic reward, or none; iterate it to train, one row of metrics per update."""

    def __init__(
        self,
        groups: Sequence[ResumableVectorEnv],
        bonus: IntrinsicReward | None,
        *,
        ppo: PPOConfig,
        mixing: MixingConfig,
        num_steps: int,
        total_steps: int,
        reward_clip: bool,
        normalize: bool,
        seed: int,
        device: torch.device,
        cpu_shared: bool = False,
        loss: Loss = ppo_loss,
    ) -> None:
        """Args:
        groups: environments of one kind; with more than one group, one steps while the policy acts for another.
        bonus: the intrinsic reward, weights and scale included.
        ppo: hyperparameters of PPO.
        mixing: how extrinsic reward and bonus are combined.
        num_steps: T, steps of each environment between updates.
        total_steps: agent steps of the whole run, over all environments.
        reward_clip: learn from the sign of the extrinsic reward.
        normalize: standardize vector observations, and divide the reward by the standard deviation of its return.
        seed: seed of networks, actions and environments.
        device: device of networks and rollouts.
        cpu_shared: block instead of spinning while waiting for the GPU; use it when several runs share the machine.
        loss: loss of a minibatch; `mmrs.ppo.ppo.ppo_loss` or one with terms of your own.
        """
        envs, num_envs = groups[0], sum(group.num_envs for group in groups)
        self.mixing, self.seed, self.device = mixing, seed, device
        self.total_updates = -(-total_steps // (num_steps * num_envs))
        self.steps_per_update = num_steps * num_envs
        observation = observation_spec(envs.observation_space)
        normalizer = ObsNormalizer(observation.shape) if normalize and observation.kind == "vector" else None
        generator = torch.Generator().manual_seed(seed)
        heads = 2 if mixing.mode == "two_heads" else 1
        with seeded_init(generator):
            network = ActorCritic(observation, action_spec(envs.action_space), heads, bf16=ppo.bf16)
        network = network.to(device, memory_format=torch.channels_last) if network.is_image else network.to(device)  # type: ignore[call-overload]
        self.bonus = bonus.to(device) if bonus else None
        self.memory: Memory | None = None
        self.bonus_metrics: Row = {}
        self.bonus_stream = torch.cuda.Stream() if device.type == "cuda" else None
        self.ppo_done = torch.cuda.Event(blocking=True) if device.type == "cuda" and cpu_shared else None
        self.in_flight: RolloutData | None = None
        self.ppo = PPO(network, ppo, generator, loss)
        self._advantage_fn = CudaGraphed(partial(mixed_advantages, mixing=mixing, gamma=ppo.gamma, lam=ppo.gae_lambda))
        self.collector = Collector(groups, self.ppo, num_steps, normalizer, device, cpu_shared)
        self.reward_clip = reward_clip
        self.reward_scale = RunningScale("return", center=False, causal=True, gamma=ppo.gamma, horizon=10**9, prior=0.0)
        self.reward_memory = self.reward_scale.initial(num_envs, device) if normalize else None
        self.updates = 0
        # Visits of each state of a Discrete space, from which coverage and fairness follow exactly.
        self.state_visits = torch.zeros(observation.size, dtype=torch.int64) if observation.kind == "discrete" else None
        self.episode_window: dict[str, deque[float]] = {}

    def __iter__(self) -> Iterator[Row]:
        """Train to the end; yields after each update, where the state is consistent and can be saved."""
        if not self.collector.started:
            self.collector.start(self.seed)
        while self.updates < self.total_updates:
            began = time.perf_counter()
            data = self.collector.collect()
            reward = self._extrinsic(data)
            terms = self._intrinsic(data)
            bonus = sum_terms(terms, reward)
            result = self._advantages(data, reward, bonus)
            batch = _batch(data, result.advantages, result.returns)
            ppo_metrics = self.ppo.update(batch, self.updates / self.total_updates)
            bonus_metrics = self._update_bonus(data)
            self.updates += 1
            metrics = self._metrics(data, reward, terms, result)
            self._block_until_done()
            row = to_floats({**ppo_metrics, **bonus_metrics, **metrics})
            self._refuse_non_finite(row)
            seconds = time.perf_counter() - began
            yield {**row, "seconds": seconds, "steps_per_second": self.steps_per_update / seconds}

    # --- rewards ----------------------------------------------------------------------------------------------------

    def _extrinsic(self, data: RolloutData) -> Tensor:
        """The reward to learn from: its sign, or divided by its return's standard deviation, or unchanged."""
        if self.reward_clip:
            return data.reward.sign()
        if self.reward_memory is None:
            return data.reward
        done = data.rollout.done
        _, scale, self.reward_memory = self.reward_scale(data.reward, data.rollout.valid, self.reward_memory, done)
        return (data.reward / scale).clamp(-10.0, 10.0).float()

    def _advantages(self, data: RolloutData, reward: Tensor, bonus: Tensor) -> Advantages:
        rollout = data.rollout
        ends = (rollout.terminated, rollout.truncated, rollout.valid)
        result: Advantages = self._advantage_fn(*ends, reward, bonus, data.values, data.next_values)
        return result

    def _update_bonus(self, data: RolloutData) -> Row:
        """Train the bonus; on a GPU in its own stream, since the result is needed only for the next rollout's bonus.

        Returns the metrics of the previous update, because this one may still be running.
        """
        if self.bonus is None:
            return {}
        metrics = {f"bonus/{name}": value for name, value in self.bonus_metrics.items()}
        if self.bonus_stream is None:
            self.bonus_metrics = self.bonus.update(data.rollout)
            return metrics
        self.bonus_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.bonus_stream):
            self.bonus_metrics = self.bonus.update(data.rollout, wait=False)
        self.in_flight = data  # keeps its memory from being reused before the update has read it
        return metrics

    def _wait_for_bonus(self) -> None:
        if self.bonus_stream is not None:
            torch.cuda.current_stream().wait_stream(self.bonus_stream)

    def _intrinsic(self, data: RolloutData) -> Terms:
        if self.bonus is None:
            return {}
        self._wait_for_bonus()
        terms, self.memory = self.bonus.compute_terms(data.rollout, self.memory)
        return terms

    def _block_until_done(self) -> None:
        """On a shared machine, block until the GPU is done: reading its results would spin on a core."""
        if self.ppo_done is not None:
            self.ppo_done.record()
            self.ppo_done.synchronize()

    # --- metrics ----------------------------------------------------------------------------------------------------

    def _metrics(self, data: RolloutData, reward: Tensor, terms: Terms, result: Advantages) -> Row:
        row: Row = {"update": self.updates, "step": self.updates * self.steps_per_update}
        ended = data.episodes
        self._remember("episode_return", ended.episode_returns)
        self._remember("game_return", ended.game_returns)
        self._remember("game_length", ended.game_lengths)
        for info in ended.infos:
            for name, value in info.items():
                self._remember(f"env/{name}", [value])
        row |= {name: float(np.mean(values)) for name, values in self.episode_window.items() if values}
        row["episodes"] = len(ended.episode_returns)
        row |= reward_metrics({**terms, "extrinsic": self.mixing.extrinsic_weight * reward})
        row |= learning_metrics(result.returns, data.values, result.bonus_share)
        if self.state_visits is not None:
            states = data.rollout.map_pairs(self.ppo.network.observation.indices)[1][data.rollout.valid].cpu()
            self.state_visits += torch.bincount(states, minlength=len(self.state_visits))
            row["coverage"] = float((self.state_visits > 0).double().mean())
            row["fairness"] = float(jain_index(self.state_visits))
        return row

    def _remember(self, name: str, values: list[float] | list[int]) -> None:
        self.episode_window.setdefault(name, deque(maxlen=WINDOW)).extend(values)

    def _refuse_non_finite(self, row: Row) -> None:
        # Rewards first: if the bonus is not finite, every loss is not finite either.
        for name, value in sorted(row.items(), key=lambda item: not item[0].startswith("reward/")):
            if not np.isfinite(value):
                raise TrainingError(
                    f"{name} became {value} in update {self.updates} (step {self.updates * self.steps_per_update}). "
                    "Nothing of this update was saved. Lower the learning rate or the bonus' weight, or look for the "
                    "environment step behind it."
                )

    # --- resume -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that a new process needs to continue with bit-identical results."""
        self._wait_for_bonus()
        return {
            "updates": self.updates,
            "threads": torch.get_num_threads(),
            "network": self.ppo.network.state_dict(),
            "optimizer": self.ppo.optimizer.state_dict(),
            "generator": self.ppo.generator.get_state(),
            "bonus": self.bonus.state_dict() if self.bonus else None,
            "memory": self.memory,
            "reward_scale": self.reward_memory,
            # "normaliser", "entered" and "recent" keep their names for the checkpoints that have them.
            "normaliser": self.collector.normalizer.state() if self.collector.normalizer else None,
            "bonus_metrics": {name: float(value) for name, value in self.bonus_metrics.items()},
            "collector": self.collector.state(),
            "entered": self.state_visits,
            "recent": {name: list(values) for name, values in self.episode_window.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, on freshly made environments."""
        if state["threads"] != torch.get_num_threads():
            raise TrainingError(
                f"this run used {state['threads']} torch threads, now there are {torch.get_num_threads()}; results "
                f"depend on that. Set the number of threads to {state['threads']} to resume exactly."
            )
        self.updates = int(state["updates"])
        self.ppo.network.load_state_dict(state["network"])
        self.ppo.optimizer.load_state_dict(state["optimizer"])
        self.ppo.generator.set_state(state["generator"].cpu())
        if self.bonus:
            self.bonus.load_state_dict(state["bonus"])
        self.memory = self._to_device(state["memory"])
        self.reward_memory = self._to_device(state["reward_scale"])
        if self.collector.normalizer:
            self.collector.normalizer.restore(state["normaliser"])
        self.bonus_metrics = dict(state["bonus_metrics"])
        self.collector.restore(state["collector"])
        self.state_visits = state["entered"]
        self.episode_window = {name: deque(values, maxlen=WINDOW) for name, values in state["recent"].items()}

    def _to_device(self, tree: Any) -> Any:
        return tree_map_only(Tensor, lambda tensor: tensor.to(self.device), tree)


def sum_terms(terms: Terms, like: Tensor) -> Tensor:
    """The bonus as the sum of its terms, ``[T, N]``; zeros if there are none."""
    return torch.stack([term.to(like.dtype) for term in terms.values()]).sum(0) if terms else torch.zeros_like(like)


def _batch(data: RolloutData, advantages: Tensor, returns: Tensor) -> Batch:
    """The transitions of a rollout as one batch; those of a collector are all valid."""
    obs = data.rollout.obs[:-1]
    return Batch(*(x.flatten(0, 1) for x in (obs, data.actions, data.log_prob, data.values, returns, advantages)))
