"""Actors: choose actions for a group of environments and store what the learner needs of each step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmrs.nets.actor_critic import ActorCritic
from mmrs.nets.cuda_graphs import CudaGraphed
from mmrs.nets.numpy_mlp import numpy_mlp

Values = NDArray[Any]


class Actor(ABC):
    """Acts for n environments over rollouts of T steps and keeps observations, actions and network outputs."""

    def __init__(self, network: ActorCritic, num_steps: int, num_envs: int, obs_dtype: torch.dtype) -> None:
        """Args:
        network: policy and values.
        num_steps: T.
        num_envs: n.
        obs_dtype: type of the stored observations.
        """
        self.network = network
        action, device = network.action, network.log_std.device
        rows, action_dtype = (num_steps, num_envs), torch.int64 if action.nvec else torch.float32
        self.obs = torch.zeros(num_steps + 1, num_envs, *network.observation.shape, dtype=obs_dtype, device=device)
        self.actions = torch.zeros(*rows, len(action.nvec) or action.size, dtype=action_dtype, device=device)
        self.parameters = torch.zeros(*rows, action.size, device=device)
        self.values = torch.zeros(*rows, network.value_heads, device=device)
        self.noise = torch.zeros(*rows, action.size, device=device)

    def start_rollout(self, noise: Tensor) -> None:
        """Start a rollout with all its noise ``[T, n, A]``, as `ActorCritic.noise` gives it."""
        self.noise.copy_(noise)

    @abstractmethod
    def start(self, obs: Values) -> None:
        """Start to act on the next observations."""

    def poll(self) -> bool:
        """Whether `result` would return at once; True where this cannot be polled."""
        return True

    @abstractmethod
    def result(self) -> Values:
        """Sampled actions ``[n, A]`` for the last observations; later steps may overwrite them."""

    @abstractmethod
    def finish(self, obs: Values) -> None:
        """End the rollout with the observations after its last step."""


class CPUActor(Actor):
    """An actor on the CPU; small networks act through `numpy_mlp`."""

    def __init__(self, network: ActorCritic, num_steps: int, num_envs: int, obs_dtype: torch.dtype) -> None:
        """As `Actor`."""
        super().__init__(network, num_steps, num_envs, obs_dtype)
        self._obs_rows, self._action_rows, self._t = self.obs.numpy(), self.actions.numpy(), 0
        plain = network.observation.kind == "vector" and len(network.observation.shape) == 1 and not network.bf16
        self._numpy_policy = numpy_mlp(network.policy) if plain and obs_dtype == torch.float32 else None

    def start_rollout(self, noise: Tensor) -> None:
        """Start a rollout with all its noise ``[T, n, A]``."""
        super().start_rollout(noise)
        self._t = 0

    @torch.no_grad()
    def start(self, obs: Values) -> None:
        """Act on the next observations."""
        t, self._t = self._t, self._t + 1
        self._obs_rows[t] = obs
        if self._numpy_policy is not None:
            parameters = torch.from_numpy(self._numpy_policy(obs))
        else:
            parameters, self.values[t] = self.network(self.obs[t])
            self.parameters[t] = parameters
        self._action_rows[t] = self.network.sample(parameters, self.noise[t]).numpy()

    def result(self) -> Values:
        """Sampled actions ``[n, A]`` for the last observations; the next rollout overwrites them."""
        return self._action_rows[self._t - 1]  # type: ignore[no-any-return]

    @torch.no_grad()
    def finish(self, obs: Values) -> None:
        """End the rollout with the observations after its last step."""
        self._obs_rows[-1] = obs
        if self._numpy_policy is not None:
            # One pass for the whole rollout, in torch's arithmetic, from which the learner starts.
            parameters, values = self.network(self.obs[:-1].flatten(0, 1))
            self.parameters.copy_(parameters.view_as(self.parameters))
            self.values.copy_(values.view_as(self.values))


class GraphActor(Actor):
    """An actor on a GPU: each step replays one captured graph.

    The graph copies the host's observations, runs the network, samples, writes row t of all buffers, and copies the
    actions to the host. The row index is on the device too, so every step can replay the same graph.
    """

    def __init__(
        self, network: ActorCritic, num_steps: int, num_envs: int, obs_dtype: torch.dtype, cpu_shared: bool = False
    ) -> None:
        """Args:
        network: policy and values.
        num_steps: T.
        num_envs: n.
        obs_dtype: type of the stored observations.
        cpu_shared: block instead of spinning while the GPU works; for several runs on one machine.
        """
        super().__init__(network, num_steps, num_envs, obs_dtype)
        self._row = torch.zeros(1, dtype=torch.int64, device=self.obs.device)
        self._host_obs = torch.zeros(self.obs.shape[1:], dtype=obs_dtype, pin_memory=True)
        self._host_actions = torch.zeros(self.actions.shape[1:], dtype=self.actions.dtype, pin_memory=True)
        self._done = torch.cuda.Event(blocking=cpu_shared)
        self._can_poll = not cpu_shared
        # High priority: environments wait for it, while the bonus' training has until the next rollout.
        self._graph = CudaGraphed(self._step, device=self.obs.device, high_priority=True)

    def start_rollout(self, noise: Tensor) -> None:
        """Start a rollout with all its noise ``[T, n, A]``."""
        super().start_rollout(noise)
        self._row.zero_()

    @torch.no_grad()
    def start(self, obs: Values) -> None:
        """Start to act on the next observations; the GPU works while the caller does something else."""
        np.copyto(self._host_obs.numpy(), obs)
        self._graph()
        self._done.record()

    def _step(self) -> Tensor:
        obs = self._host_obs.to(self.obs.device, non_blocking=True)
        parameters, values = self.network(obs)
        actions = self.network.sample(parameters, self.noise.index_select(0, self._row).squeeze(0))
        self._host_actions.copy_(actions, non_blocking=True)
        columns = (self.obs, self.parameters, self.values, self.actions)
        for column, value in zip(columns, (obs, parameters, values, actions), strict=True):
            column.index_copy_(0, self._row, value.unsqueeze(0))
        return self._row.add_(1)

    def poll(self) -> bool:
        """Whether `result` would return at once; True where this cannot be polled."""
        return not self._can_poll or self._done.query()

    def result(self) -> Values:
        """Sampled actions ``[n, A]`` for the last observations; the next step overwrites them."""
        self._done.synchronize()
        return self._host_actions.numpy()

    def finish(self, obs: Values) -> None:
        """End the rollout with the observations after its last step."""
        np.copyto(self._host_obs.numpy(), obs)
        self.obs[-1].copy_(self._host_obs, non_blocking=True)
