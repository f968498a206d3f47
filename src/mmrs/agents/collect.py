"""Collecting rollouts: acting, stepping, remembering; the true last states kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmrs.agents.acting import ActingNetwork, Actor, make_actor
from mmrs.agents.normalise import ObsNormaliser
from mmrs.agents.policy import ForEnv
from mmrs.agents.ppo import PPO
from mmrs.envs.training import Episodes, Step, TrainingEnvs
from mmrs.errors import InputError
from mmrs.nets.capture import Captured
from mmrs.nets.transfer import to_device
from mmrs.rollout import Rollout

Values = NDArray[Any]


@dataclass(frozen=True)
class Collected:
    """A rollout with what the learner, and only the learner, may know beside it."""

    rollout: Rollout
    actions: Tensor
    """``[T, N, A]`` as the network sampled them."""
    reward: Tensor
    """``[T, N]`` raw extrinsic reward."""
    log_prob: Tensor
    """``[T, N]``"""
    values: Tensor
    """``[T, N, heads]`` of s_t."""
    next_values: Tensor
    """``[T, N, heads]`` of the true s_{t+1}."""
    episodes: Episodes


class Group:
    """Environments that act and step together, and what a rollout holds of them."""

    def __init__(self, envs: TrainingEnvs, actor: Actor, num_steps: int, normaliser: ObsNormaliser | None) -> None:
        self.envs, self.actor, self.normaliser = envs, actor, normaliser
        self.for_env = ForEnv(actor.ppo.network.action, envs.action_space)
        self.obs: Values = np.zeros(0)
        shape = (num_steps, envs.num_envs)
        self.reward = np.zeros(shape, np.float32)
        self.terminated, self.truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        self.taken: list[Values] = []

    def see(self, obs: Values) -> None:
        """What the environments show now."""
        self.obs = self.normaliser.see(obs) if self.normaliser else obs

    def begin(self, noise: Tensor) -> None:
        """Start a rollout: act on the observation that the last one left."""
        self.taken.clear()
        self.actor.begin(noise)
        self.actor.start(self.obs)
        self.send()

    def send(self) -> None:
        """Let the environments take the actions that the actor has been asked for."""
        action = self.for_env(self.actor.result())
        self.envs.send(action)
        self.taken.append(action)

    def record(self) -> Step:
        """Count and keep the step that has come last."""
        step, t = self.envs.recv(), len(self.taken) - 1
        self.reward[t], self.terminated[t], self.truncated[t] = step.reward, step.terminated, step.truncated
        return step


class Collector:
    """Steps environments with a policy; keeps the present observation between rollouts.

    With several groups, the others step while the policy acts for one.
    """

    def __init__(
        self,
        groups: Sequence[TrainingEnvs],
        ppo: PPO,
        num_steps: int,
        normaliser: ObsNormaliser | None,
        device: torch.device,
        shared: bool = False,
    ) -> None:
        self.ppo, self.num_steps, self.normaliser, self.device = ppo, num_steps, normaliser, device
        dtype = torch.float32 if normaliser else ppo.observation.dtype
        self.network = ActingNetwork(ppo)
        self.groups = [
            Group(e, make_actor(ppo, self.network, num_steps, e.num_envs, dtype, device, shared), num_steps, normaliser)
            for e in groups
        ]
        self.num_envs = sum(envs.num_envs for envs in groups)
        self._judged = Captured(self._judge)
        self._finals: list[Values] = []

    def start(self, seed: int) -> None:
        """Reset the environments."""
        for group in self.groups:
            group.see(group.envs.reset(seed))

    @property
    def started(self) -> bool:
        """Whether there is an observation to act on."""
        return bool(self.groups[0].obs.size)

    def collect(self) -> Collected:
        """T steps of every environment."""
        self.network.refresh()
        self._finals, episodes = [], Episodes()
        noise = self.ppo.network.noise((self.num_steps, self.num_envs), self.ppo.generator)
        parts = noise.split([group.envs.num_envs for group in self.groups], 1)
        for group, part in zip(self.groups, parts, strict=True):
            group.begin(part)
        for _ in range(1, self.num_steps):
            for group in self.groups:
                group.see(group.envs.wait())
                group.actor.start(group.obs)
                self._record(group, episodes)  # while a GPU acts
                group.send()
        for group in self.groups:
            group.see(group.envs.wait())
            self._record(group, episodes)
            group.actor.finish(group.obs)
        return self._collected(episodes)

    def _record(self, group: Group, episodes: Episodes) -> None:
        step = group.record()
        if len(step.final_obs):
            self._finals.append(self.normaliser(step.final_obs) if self.normaliser else step.final_obs)
            extend(episodes, step.episodes)

    @torch.no_grad()
    def _collected(self, episodes: Episodes) -> Collected:
        groups, actors = self.groups, [group.actor for group in self.groups]
        rollout = Rollout(
            obs=torch.cat([actor.obs for actor in actors], 1),
            actions=self._joined([np.stack(g.taken) for g in groups]),
            terminated=self._joined([g.terminated for g in groups]),
            truncated=self._joined([g.truncated for g in groups]),
            final_obs=self._joined(self._finals, 0) if self._finals else None,
        ).settle()
        actions = torch.cat([actor.actions for actor in actors], 1)
        parameters = torch.cat([actor.parameters for actor in actors], 1)
        values = torch.cat([actor.values for actor in actors], 1)
        reward = self._joined([g.reward for g in groups])
        log_prob, last_values = self._judged(parameters.flatten(0, 1), actions.flatten(0, 1), self._last_obs(rollout))
        # Values of the true successors are known from the next step, but for last states and the final row.
        next_values = torch.cat([values.flatten(0, 1), last_values])[rollout.after]
        return Collected(rollout, actions, reward, log_prob.view_as(reward), values, next_values, episodes)

    def _joined(self, parts: list[Values], axis: int = 1) -> Tensor:
        """The groups' arrays as one, on the device."""
        return to_device(torch.from_numpy(np.concatenate(parts, axis)), self.device)

    def _last_obs(self, rollout: Rollout) -> Tensor:
        """The final row and the true last states; on a GPU padded to few different shapes, each one graph."""
        last = rollout.obs[-1]
        room = -(self.num_envs + len(rollout.final_obs)) % 32 if self.device.type == "cuda" else 0
        return torch.cat([last, rollout.final_obs, last[:1].expand(room, *last.shape[1:])])

    def _judge(self, parameters: Tensor, actions: Tensor, last_obs: Tensor) -> tuple[Tensor, Tensor]:
        """Log probabilities of actions, and values of observations that were not acted on."""
        return self.ppo.network.log_prob(parameters, actions)[0], self.ppo.forward(last_obs)[1]

    def state(self) -> dict[str, Any]:
        """Where each environment stands; nothing of the groups, so that a run may go on with another number of them."""
        return {
            "obs": np.concatenate([group.obs for group in self.groups]),
            "envs": [one for group in self.groups for one in group.envs.state()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`, on freshly made environments."""
        if len(state["envs"]) != self.num_envs:
            raise InputError(f"the state is of {len(state['envs'])} environments, here are {self.num_envs}.")
        first = 0
        for group in self.groups:
            own = slice(first, first + group.envs.num_envs)
            group.envs.restore(state["envs"][own])
            group.obs = np.array(state["obs"][own])
            first = own.stop

    def close(self) -> None:
        """Close the environments."""
        for group in self.groups:
            group.envs.close()


def extend(total: Episodes, more: Episodes) -> None:
    """Add what ended in one step to what ended in a rollout."""
    total.life_returns.extend(more.life_returns)
    total.game_returns.extend(more.game_returns)
    total.game_lengths.extend(more.game_lengths)
    total.infos.extend(more.infos)
