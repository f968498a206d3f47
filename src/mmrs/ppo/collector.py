"""Collecting rollouts with a policy; the true last states are kept."""

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

from mmrs.envs.base import Episodes, ResumableVectorEnv
from mmrs.errors import InputError
from mmrs.nets.cuda_graphs import CudaGraphed, to_device
from mmrs.nets.normalization import ObsNormalizer
from mmrs.ppo.actor import Actor, CPUActor, GraphActor
from mmrs.ppo.env_group import EnvGroup, StepBuffer
from mmrs.ppo.ppo import PPO
from mmrs.rollout import Rollout

Values = NDArray[Any]


@dataclass(frozen=True)
class RolloutData:
    """A rollout and what only the learner may know of it."""

    rollout: Rollout
    actions: Tensor
    """``[T, N, A]``, as sampled by the network."""
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
    """Steps environments with a policy; keeps the current observation between rollouts.

    With several groups, the others step while the policy acts for one. Groups that can be polled are served in the
    order in which they finish, others in turn.
    """

    def __init__(
        self,
        groups: Sequence[ResumableVectorEnv],
        ppo: PPO,
        num_steps: int,
        normalizer: ObsNormalizer | None,
        device: torch.device,
        cpu_shared: bool = False,
    ) -> None:
        self.ppo, self.num_steps, self.normalizer, self.device = ppo, num_steps, normalizer, device
        dtype = torch.float32 if normalizer else ppo.network.observation.dtype
        self.num_envs = sum(envs.num_envs for envs in groups)
        self.step_buffer = StepBuffer.allocate(num_steps, self.num_envs, groups[0].action_space, device)
        columns = zip(*(one.split([envs.num_envs for envs in groups], 1) for one in self.step_buffer), strict=True)
        self.groups = []
        for envs, own in zip(groups, columns, strict=True):
            shape = (num_steps, envs.num_envs, dtype)
            on_gpu = device.type == "cuda"
            actor: Actor = GraphActor(ppo.network, *shape, cpu_shared) if on_gpu else CPUActor(ppo.network, *shape)
            self.groups.append(EnvGroup(envs, actor, StepBuffer(*own), normalizer))
        self._evaluate_graph = CudaGraphed(self._evaluate)

    def start(self, seed: int) -> None:
        """Reset the environments."""
        for group in self.groups:
            group.set_obs(group.envs.reset(seed))

    @property
    def started(self) -> bool:
        """Whether there is an observation to act on."""
        return bool(self.groups[0].obs.size)

    def collect(self) -> RolloutData:
        """T steps of every environment."""
        noise = self.ppo.network.noise((self.num_steps, self.num_envs), self.ppo.generator)
        parts = noise.split([group.envs.num_envs for group in self.groups], 1)
        for group, part in zip(self.groups, parts, strict=True):
            group.start_rollout(part)
        at_work = deque(self.groups)
        while at_work:
            group = at_work.popleft()
            if group.poll():
                group.advance()
            if not group.finished:
                at_work.append(group)
        return self._rollout_data()

    @torch.no_grad()
    def _rollout_data(self) -> RolloutData:
        actors = [group.actor for group in self.groups]
        reward, terminated, truncated, env_actions = self.step_buffer.to(self.device)
        final_obs, episodes = self._episode_ends()
        rollout = Rollout(
            obs=torch.cat([actor.obs for actor in actors], 1),
            actions=env_actions,
            terminated=terminated,
            truncated=truncated,
            final_obs=final_obs,
        ).precompute()
        actions = torch.cat([actor.actions for actor in actors], 1)
        parameters = torch.cat([actor.parameters for actor in actors], 1)
        values = torch.cat([actor.values for actor in actors], 1)
        last_obs = self._last_obs(rollout)
        log_prob, last_values = self._evaluate_graph(parameters.flatten(0, 1), actions.flatten(0, 1), last_obs)
        # The next step's values are those of the true successors, except for last states and the final row.
        next_values = torch.cat([values.flatten(0, 1), last_values])[rollout.next_state_index]
        return RolloutData(rollout, actions, reward, log_prob.view_as(reward), values, next_values, episodes)

    def _episode_ends(self) -> tuple[Tensor | None, Episodes]:
        """True last states and the episodes that ended, ordered by step and then by group."""
        order = sorted((t, i, k) for i, group in enumerate(self.groups) for k, (t, *_) in enumerate(group.ended))
        ended = [self.groups[i].ended[k] for _, i, k in order]
        episodes = Episodes()
        for _, _, more in ended:
            extend(episodes, more)
        if not ended:
            return None, episodes
        last = np.concatenate([final_obs for _, final_obs, _ in ended])
        return to_device(torch.from_numpy(last), self.device), episodes

    def _last_obs(self, rollout: Rollout) -> Tensor:
        """The final row and the true last states; padded on a GPU, so that few graphs cover all sizes."""
        last = rollout.obs[-1]
        padding = -(self.num_envs + len(rollout.final_obs)) % 32 if self.device.type == "cuda" else 0
        return torch.cat([last, rollout.final_obs, last[:1].expand(padding, *last.shape[1:])])

    def _evaluate(self, parameters: Tensor, actions: Tensor, last_obs: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the actions, and values of the observations that were not acted on."""
        return self.ppo.network.log_prob(parameters, actions)[0], self.ppo.network(last_obs)[1]

    def state(self) -> dict[str, Any]:
        """The state of each environment; independent of the groups, so a run may resume with another number of them."""
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
        slices = [slice(first, first + size) for first, size in zip(firsts, sizes, strict=False)]
        calls = [
            partial(group.envs.restore, state["envs"][own]) for group, own in zip(self.groups, slices, strict=True)
        ]
        if all(group.pollable for group in self.groups):
            call_in_threads(calls)  # each may have many steps to replay
        else:  # an environment may hold handles that only one thread can use
            for call in calls:
                call()
        for group, own in zip(self.groups, slices, strict=True):
            group.obs = np.array(state["obs"][own])

    def close(self) -> None:
        """Close the environments."""
        for group in self.groups:
            group.envs.close()


def extend(total: Episodes, more: Episodes) -> None:
    """Add the episodes that ended in one step to those of a rollout."""
    total.episode_returns.extend(more.episode_returns)
    total.game_returns.extend(more.game_returns)
    total.game_lengths.extend(more.game_lengths)
    total.infos.extend(more.infos)


def call_in_threads(calls: Sequence[Callable[[], object]]) -> None:
    """Run all calls, each in a thread, until all have returned or one has failed; its error is raised.

    Not a `ThreadPoolExecutor`: its threads are joined when the process exits, so an environment that hangs would keep
    a failed run from ending.
    """
    results: SimpleQueue[BaseException | None] = SimpleQueue()
    for call in calls:
        Thread(target=_report, args=(call, results), daemon=True).start()
    for _ in calls:
        error = results.get()
        if error is not None:
            raise error


def _report(call: Callable[[], object], results: SimpleQueue[BaseException | None]) -> None:
    """Run the call and put its error, or None, into the queue."""
    try:
        call()
        results.put(None)
    except BaseException as error:
        results.put(error)
