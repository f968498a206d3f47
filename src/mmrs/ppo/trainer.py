"""Algorithm 1: collect, reward, advantages, update, one line each, over and over."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmrs.envs.base import TrainingEnvs
from mmrs.errors import TrainingError
from mmrs.functional.fairness import jain_index
from mmrs.nets.actor_critic import ActorCritic
from mmrs.nets.cuda_graphs import Captured
from mmrs.nets.encoders import drawn_from
from mmrs.ppo.advantages import Advantages, MixingConfig, mixed_advantages
from mmrs.ppo.collector import Collected, Collector
from mmrs.ppo.metrics import as_numbers, learning_figures, reward_figures
from mmrs.ppo.policy import ObsNormaliser
from mmrs.ppo.ppo import PPO, Batch, PPOConfig
from mmrs.rewards.base import IntrinsicReward, Memory, Terms
from mmrs.rewards.wrappers import RunningScale
from mmrs.spaces import action_spec, observation_spec

Row = dict[str, Any]
WINDOW = 100
"""Episodes that the reported returns average over."""


class Trainer:
    """PPO with an intrinsic reward, or none, on environments; iterate it to train, a row of measurements an update."""

    def __init__(
        self,
        groups: Sequence[TrainingEnvs],
        bonus: IntrinsicReward | None,
        *,
        ppo: PPOConfig,
        mixing: MixingConfig,
        num_steps: int,
        total_steps: int,
        reward_clip: bool,
        normalise: bool,
        seed: int,
        device: torch.device,
        shared: bool = False,
    ) -> None:
        """Args:
        groups: environments of one kind; with more than one group, one steps while the policy acts for another.
        bonus: the intrinsic reward, weights and scale included.
        ppo: the learner's numbers.
        mixing: how the bonus joins the reward.
        num_steps: T, steps of each environment between updates.
        total_steps: agent steps of the whole run, over all environments.
        reward_clip: learn from the sign of the extrinsic reward.
        normalise: standardise vector observations, and scale the reward by its return's spread.
        seed: of everything.
        device: where networks and rollouts live.
        shared: leave the cores to others while waiting for a GPU: slower alone, faster among many runs.
        """
        envs, num_envs = groups[0], sum(group.num_envs for group in groups)
        self.mixing, self.seed, self.device = mixing, seed, device
        self.total_updates = -(-total_steps // (num_steps * num_envs))
        self.steps_per_update = num_steps * num_envs
        observation = observation_spec(envs.observation_space)
        normaliser = ObsNormaliser(observation.shape) if normalise and observation.kind == "vector" else None
        generator = torch.Generator().manual_seed(seed)
        with drawn_from(generator):
            network = ActorCritic(observation, action_spec(envs.action_space), 2 if mixing.mode == "two_heads" else 1)
        network = network.to(device, memory_format=torch.channels_last) if network.is_image else network.to(device)  # type: ignore[call-overload]
        self.bonus = bonus.to(device) if bonus else None
        self.memory: Memory | None = None
        self.bonus_metrics: Row = {}
        self.beside = torch.cuda.Stream() if device.type == "cuda" else None
        self.learned = torch.cuda.Event(blocking=True) if device.type == "cuda" and shared else None
        self.under_way: Collected | None = None
        self.ppo = PPO(network, observation, ppo, generator)
        self._mix = Captured(partial(mixed_advantages, mixing=mixing, gamma=ppo.gamma, lam=ppo.gae_lambda))
        self.collector = Collector(groups, self.ppo, num_steps, normaliser, device, shared)
        self.reward_clip = reward_clip
        self.reward_scale = RunningScale("return", centre=False, causal=True, gamma=ppo.gamma, horizon=10**9, prior=0.0)
        self.reward_memory = self.reward_scale.initial(num_envs, device) if normalise else None
        self.updates = 0
        # How often each state of a Discrete space was entered: coverage and fairness can then be told exactly.
        self.entered = torch.zeros(observation.size, dtype=torch.int64) if observation.kind == "discrete" else None
        self.recent: dict[str, deque[float]] = {}

    def __iter__(self) -> Iterator[Row]:
        """Train to the end, yielding after each update; everything is consistent there, so that is where to save."""
        if not self.collector.started:
            self.collector.start(self.seed)
        while self.updates < self.total_updates:
            began = time.perf_counter()
            got = self.collector.collect()
            reward = self._extrinsic(got)
            terms = self._intrinsic(got)
            bonus = sum_terms(terms, reward)
            result = self._advantages(got, reward, bonus)
            learned = self.ppo.update(_batch(got, result.advantages, result.returns), self.updates / self.total_updates)
            trained = self._update_bonus(got)
            self.updates += 1
            measured = self._measurements(got, reward, terms, result)
            self._rest()
            row = as_numbers({**learned, **trained, **measured})
            self._refuse_non_finite(row)
            seconds = time.perf_counter() - began
            yield {**row, "seconds": seconds, "steps_per_second": self.steps_per_update / seconds}

    # --- rewards ----------------------------------------------------------------------------------------------------

    def _extrinsic(self, got: Collected) -> Tensor:
        """The reward the learner sees: its sign, or divided by the running spread of its return, or as it is."""
        if self.reward_clip:
            return got.reward.sign()
        if self.reward_memory is None:
            return got.reward
        done = got.rollout.done
        _, scale, self.reward_memory = self.reward_scale(got.reward, got.rollout.valid, self.reward_memory, done)
        return (got.reward / scale).clamp(-10.0, 10.0).float()

    def _advantages(self, got: Collected, reward: Tensor, bonus: Tensor) -> Advantages:
        rollout = got.rollout
        ends = (rollout.terminated, rollout.truncated, rollout.valid)
        result: Advantages = self._mix(*ends, reward, bonus, got.values, got.next_values)
        return result

    def _update_bonus(self, got: Collected) -> Row:
        """Train the bonus; on a GPU beside the next steps, since nothing needs it before the next rollout is scored.

        Returns what the update before measured: this one may still be under way.
        """
        if self.bonus is None:
            return {}
        measured = {f"bonus/{name}": value for name, value in self.bonus_metrics.items()}
        if self.beside is None:
            self.bonus_metrics = self.bonus.update(got.rollout)
            return measured
        self.beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.beside):
            self.bonus_metrics = self.bonus.update(got.rollout, wait=False)
        self.under_way = got  # its memory must not be reused before the update has read it
        return measured

    def _wait_for_bonus(self) -> None:
        if self.beside is not None:
            torch.cuda.current_stream().wait_stream(self.beside)

    def _intrinsic(self, got: Collected) -> Terms:
        if self.bonus is None:
            return {}
        self._wait_for_bonus()
        terms, self.memory = self.bonus.compute_terms(got.rollout, self.memory)
        return terms

    def _rest(self) -> None:
        """On a shared machine, sleep until the GPU has learned: whoever asks it for numbers keeps a core busy."""
        if self.learned is not None:
            self.learned.record()
            self.learned.synchronize()

    # --- measurements -----------------------------------------------------------------------------------------------

    def _measurements(self, got: Collected, reward: Tensor, terms: Terms, result: Advantages) -> Row:
        row: Row = {"update": self.updates, "step": self.updates * self.steps_per_update}
        ended = got.episodes
        self._remember("life_return", ended.life_returns)
        self._remember("game_return", ended.game_returns)
        self._remember("game_length", ended.game_lengths)
        for info in ended.infos:
            for name, value in info.items():
                self._remember(f"env/{name}", [value])
        row |= {name: float(np.mean(values)) for name, values in self.recent.items() if values}
        row["episodes"] = len(ended.life_returns)
        row |= reward_figures({**terms, "extrinsic": self.mixing.extrinsic_weight * reward})
        row |= learning_figures(result.returns, got.values, result.bonus_share)
        if self.entered is not None:
            states = got.rollout.pairs(self.ppo.observation.states)[1][got.rollout.valid].cpu()
            self.entered += torch.bincount(states, minlength=len(self.entered))
            row["coverage"] = float((self.entered > 0).double().mean())
            row["fairness"] = float(jain_index(self.entered))
        return row

    def _remember(self, name: str, values: list[float] | list[int]) -> None:
        self.recent.setdefault(name, deque(maxlen=WINDOW)).extend(values)

    def _refuse_non_finite(self, row: Row) -> None:
        # The rewards first: a bonus that is not finite makes every loss so.
        for name, value in sorted(row.items(), key=lambda item: not item[0].startswith("reward/")):
            if not np.isfinite(value):
                raise TrainingError(
                    f"{name} became {value} in update {self.updates} (step {self.updates * self.steps_per_update}). "
                    "Nothing of this update was saved. Lower the learning rate or the bonus' weight, or look for the "
                    "environment step behind it."
                )

    # --- resume -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything a new process needs to continue to the bit."""
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
            "normaliser": self.collector.normaliser.state() if self.collector.normaliser else None,
            "bonus_metrics": {name: float(value) for name, value in self.bonus_metrics.items()},
            "collector": self.collector.state(),
            "entered": self.entered,
            "recent": {name: list(values) for name, values in self.recent.items()},
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
        self.memory = _on(state["memory"], self.device)
        self.reward_memory = _on(state["reward_scale"], self.device)
        if self.collector.normaliser:
            self.collector.normaliser.restore(state["normaliser"])
        self.bonus_metrics = dict(state["bonus_metrics"])
        self.collector.restore(state["collector"])
        self.entered = state["entered"]
        self.recent = {name: deque(values, maxlen=WINDOW) for name, values in state["recent"].items()}


def sum_terms(terms: Terms, like: Tensor) -> Tensor:
    """The bonus from its terms, ``[T, N]``; zeros where there are none."""
    return torch.stack([term.to(like.dtype) for term in terms.values()]).sum(0) if terms else torch.zeros_like(like)


def _batch(got: Collected, advantages: Tensor, returns: Tensor) -> Batch:
    """The transitions of a rollout, flat; a collector's are all valid."""
    obs = got.rollout.obs[:-1]
    return Batch(*(x.flatten(0, 1) for x in (obs, got.actions, got.log_prob, got.values, returns, advantages)))


def _on(tree: Any, device: torch.device) -> Any:
    """Tensors of a tree on a device."""
    if isinstance(tree, dict):
        return {name: _on(value, device) for name, value in tree.items()}
    return tree.to(device) if isinstance(tree, Tensor) else tree
