"""Collecting rollouts: acting, stepping, remembering; the true last states kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmrs.envs.base import Episodes, TrainingEnvs
from mmrs.errors import InputError
from mmrs.nets.cuda_graphs import Captured, to_device
from mmrs.ppo.actor import ActingNetwork, make_actor
from mmrs.ppo.env_group import Group, Written
from mmrs.ppo.policy import ObsNormaliser
from mmrs.ppo.ppo import PPO
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


class Collector:
    """Steps environments with a policy; keeps the present observation between rollouts.

    With several groups, the others step while the policy acts for one: in turn, or, where environments can be asked
    whether they are done, as they come.
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
        self.num_envs = sum(envs.num_envs for envs in groups)
        self.written = Written.blank(num_steps, self.num_envs, groups[0].action_space, device)
        columns = zip(*(one.split([envs.num_envs for envs in groups], 1) for one in self.written), strict=True)
        self.groups = []
        for envs, own in zip(groups, columns, strict=True):
            actor = make_actor(ppo, self.network, num_steps, envs.num_envs, dtype, device, shared)
            self.groups.append(Group(envs, actor, Written(*own), normaliser))
        self._judged = Captured(self._judge)

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
        noise = self.ppo.network.noise((self.num_steps, self.num_envs), self.ppo.generator)
        parts = noise.split([group.envs.num_envs for group in self.groups], 1)
        for group, part in zip(self.groups, parts, strict=True):
            group.begin(part)
        at_work = deque(self.groups)
        while at_work:
            group = at_work.popleft()
            if group.ready():
                group.advance()
            if not group.finished:
                at_work.append(group)
        return self._collected()

    @torch.no_grad()
    def _collected(self) -> Collected:
        actors = [group.actor for group in self.groups]
        reward, terminated, truncated, taken = self.written.on(self.device)
        final_obs, episodes = self._ended()
        rollout = Rollout(
            obs=torch.cat([actor.obs for actor in actors], 1),
            actions=taken,
            terminated=terminated,
            truncated=truncated,
            final_obs=final_obs,
        ).settle()
        actions = torch.cat([actor.actions for actor in actors], 1)
        parameters = torch.cat([actor.parameters for actor in actors], 1)
        values = torch.cat([actor.values for actor in actors], 1)
        log_prob, last_values = self._judged(parameters.flatten(0, 1), actions.flatten(0, 1), self._last_obs(rollout))
        # Values of the true successors are known from the next step, but for last states and the final row.
        next_values = torch.cat([values.flatten(0, 1), last_values])[rollout.after]
        return Collected(rollout, actions, reward, log_prob.view_as(reward), values, next_values, episodes)

    def _ended(self) -> tuple[Tensor | None, Episodes]:
        """True last states and what ended, step by step and group by group, in whichever order they came."""
        came = sorted((t, i, k) for i, group in enumerate(self.groups) for k, (t, *_) in enumerate(group.ended))
        ended = [self.groups[i].ended[k] for _, i, k in came]
        episodes = Episodes()
        for _, _, more in ended:
            extend(episodes, more)
        if not ended:
            return None, episodes
        last = np.concatenate([final_obs for _, final_obs, _ in ended])
        return to_device(torch.from_numpy(last), self.device), episodes

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
        sizes = [group.envs.num_envs for group in self.groups]
        firsts = np.cumsum([0, *sizes])
        owns = [slice(first, first + size) for first, size in zip(firsts, sizes, strict=False)]
        calls = [partial(group.envs.restore, state["envs"][own]) for group, own in zip(self.groups, owns, strict=True)]
        if all(group.apart for group in self.groups):
            at_once(calls)  # each may have many steps to replay
        else:  # what an environment opens may be for one thread only
            for call in calls:
                call()
        for group, own in zip(self.groups, owns, strict=True):
            group.obs = np.array(state["obs"][own])

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


def at_once(calls: Sequence[Callable[[], object]]) -> None:
    """Make all calls and wait for them, or for the first error, which is raised."""
    ends: SimpleQueue[BaseException | None] = SimpleQueue()
    for call in calls:
        Thread(target=_told, args=(call, ends), daemon=True).start()  # who stops waiting need not wait for the others
    for _ in calls:
        error = ends.get()
        if error is not None:
            raise error


def _told(call: Callable[[], object], ends: SimpleQueue[BaseException | None]) -> None:
    try:
        call()
        ends.put(None)
    except BaseException as error:
        ends.put(error)
