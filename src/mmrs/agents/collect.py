"""Collecting rollouts: acting, stepping, remembering; the true last states kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmrs.agents.acting import Actor, make_actor
from mmrs.agents.normalise import ObsNormaliser
from mmrs.agents.policy import ForEnv
from mmrs.agents.ppo import PPO
from mmrs.envs.training import Episodes, Step, TrainingEnvs
from mmrs.errors import InputError
from mmrs.rollout import Rollout

Values = NDArray[Any]
MANY = 8
"""Groups from which on a group's actions are fetched in the next group's turn."""


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

    def __init__(self, envs: TrainingEnvs, actor: Actor, num_steps: int) -> None:
        self.envs, self.actor = envs, actor
        self.for_env = ForEnv(actor.ppo.network.action, envs.action_space)
        self.obs: Values = np.zeros(0)
        shape = (num_steps, envs.num_envs)
        self.reward = np.zeros(shape, np.float32)
        self.terminated, self.truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        self.taken: list[Values] = []

    def send(self) -> None:
        """Let the environments take the actions that the actor has been asked for."""
        action = self.for_env(self.actor.result())
        self.envs.send(action)
        self.taken.append(action)


class Collector:
    """Steps environments with a policy; keeps the present observation between rollouts.

    With several groups, one steps while the policy acts for another, so that neither waits for the other.
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
        self.groups = [
            Group(e, make_actor(ppo, num_steps, e.num_envs, dtype, device, shared), num_steps) for e in groups
        ]
        self.num_envs = sum(envs.num_envs for envs in groups)
        # With many small groups a GPU may still act for one while the next arrives: their turns are that short.
        self.ahead = 1 if len(groups) >= MANY else 0
        self._finals: list[Values] = []

    def start(self, seed: int) -> None:
        """Reset the environments."""
        for group in self.groups:
            group.obs = self._seen(group.envs.reset(seed))

    @property
    def started(self) -> bool:
        """Whether there is an observation to act on."""
        return bool(self.groups[0].obs.size)

    def _seen(self, obs: Values) -> Values:
        return self.normaliser.see(obs) if self.normaliser else obs

    def collect(self) -> Collected:
        """T steps of every environment."""
        episodes, noise, self._finals = Episodes(), self._noise(), []
        for group, part in zip(self.groups, noise.split([g.envs.num_envs for g in self.groups], 1), strict=True):
            group.actor.begin(part)
            group.taken.clear()
        acting: deque[Group] = deque()
        for t in range(self.num_steps):
            for group in self.groups:
                if t:
                    group.obs = self._seen(group.envs.wait())
                group.actor.start(group.obs)
                acting.append(group)
                if t:
                    self._record(group, t - 1, episodes)  # while a GPU acts
                if len(acting) > self.ahead:
                    acting.popleft().send()
        for group in acting:
            group.send()
        for group in self.groups:
            group.obs = self._seen(group.envs.wait())
            self._record(group, self.num_steps - 1, episodes)
            group.actor.finish(group.obs)
        return self._collected(episodes)

    def _noise(self) -> Tensor:
        """All random numbers of a rollout at once, from the agent's own generator."""
        shape = (self.num_steps, self.num_envs, self.ppo.network.action.size)
        draw = torch.rand if self.ppo.network.action.choices else torch.randn
        return draw(shape, generator=self.ppo.generator)

    def _record(self, group: Group, t: int, episodes: Episodes) -> None:
        step: Step = group.envs.recv()
        group.reward[t], group.terminated[t], group.truncated[t] = step.reward, step.terminated, step.truncated
        if len(step.final_obs):
            self._finals.append(self.normaliser(step.final_obs) if self.normaliser else step.final_obs)
        if step.episodes.life_returns:
            extend(episodes, step.episodes)

    @torch.no_grad()
    def _collected(self, episodes: Episodes) -> Collected:
        groups, actors = self.groups, [group.actor for group in self.groups]
        rollout = Rollout(
            obs=torch.cat([actor.obs for actor in actors], 1),
            actions=torch.from_numpy(np.concatenate([np.stack(g.taken) for g in groups], 1)).to(self.device),
            terminated=torch.from_numpy(np.concatenate([g.terminated for g in groups], 1)).to(self.device),
            truncated=torch.from_numpy(np.concatenate([g.truncated for g in groups], 1)).to(self.device),
            final_obs=torch.from_numpy(np.concatenate(self._finals)).to(self.device) if self._finals else None,
        )
        actions = torch.cat([actor.actions for actor in actors], 1)
        parameters = torch.cat([actor.parameters for actor in actors], 1)
        log_prob, _ = self.ppo.network.log_prob(parameters.flatten(0, 1), actions.flatten(0, 1))
        values = torch.cat([actor.values for actor in actors], 1)
        reward = torch.from_numpy(np.concatenate([g.reward for g in groups], 1)).to(self.device)
        next_values = self._next_values(rollout, values)
        return Collected(rollout, actions, reward, log_prob.view_as(reward), values, next_values, episodes)

    def _next_values(self, rollout: Rollout, known: Tensor) -> Tensor:
        """Values of the true successors: known from the next step, but for last states and the final row."""
        _, values = self.ppo.forward(torch.cat([rollout.obs[-1], rollout.final_obs]))
        return torch.cat([known.flatten(0, 1), values])[rollout.after]

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
