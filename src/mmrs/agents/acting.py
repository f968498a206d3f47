"""Acting on a group of environments and keeping what the learner will need; on a GPU, one captured graph a step."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from mmrs.agents.ppo import PPO
from mmrs.functional.distributions import gumbel
from mmrs.nets.capture import Captured

Values = NDArray[Any]


class Actor:
    """Acts for n environments over rollouts of T steps; observations and network outputs stay on the device.

    A step is one captured graph on a GPU: forward pass, sampling, and writing row t of everything that is kept. The
    row number lives on the device too, so that every step is the same graph.
    """

    def __init__(self, ppo: PPO, num_steps: int, num_envs: int, obs_dtype: torch.dtype, device: torch.device) -> None:
        self.ppo, self.device = ppo, device
        network, spec = ppo.network, ppo.observation
        actions = len(network.action.choices) or network.action.size
        whole = (num_steps, num_envs)
        self.obs = torch.zeros(num_steps + 1, num_envs, *spec.shape, dtype=obs_dtype, device=device)
        self.parameters = torch.zeros(*whole, network.action.size, device=device)
        self.values = torch.zeros(*whole, network.value_heads, device=device)
        kind = torch.int64 if network.action.choices else torch.float32
        self.actions = torch.zeros(*whole, actions, dtype=kind, device=device)
        self._noise = torch.zeros(*whole, network.action.size, device=device)
        self._row = torch.zeros(1, dtype=torch.int64, device=device)
        pinned = device.type == "cuda"
        self._inbox = torch.zeros(num_envs, *spec.shape, dtype=obs_dtype, pin_memory=pinned)
        self._graph = Captured(self._step)

    def begin(self, uniform_or_normal: Tensor) -> None:
        """Start a rollout with all its noise ``[T, n, A]``: uniform for choices, normal for numbers."""
        noise = uniform_or_normal.to(self.device)
        self._noise.copy_(gumbel(noise) if self.ppo.network.action.choices else noise)
        self._row.zero_()

    @torch.no_grad()
    def act(self, obs: Values) -> Tensor:
        """Actions ``[n, A]`` on the CPU for the next step's observations."""
        self._inbox.copy_(torch.from_numpy(obs))
        if self.device.type == "cpu":
            return self._step(self._inbox)
        return self._graph(self._inbox.to(self.device, non_blocking=True)).cpu()

    def _step(self, obs: Tensor) -> Tensor:
        parameters, values = self.ppo.forward(obs)
        actions = self.ppo.network.sample(parameters, self._noise.index_select(0, self._row).squeeze(0))
        kept = ((self.obs, obs), (self.parameters, parameters), (self.values, values), (self.actions, actions))
        for place, value in kept:
            place.index_copy_(0, self._row, value.unsqueeze(0))
        self._row.add_(1)
        return actions

    def finish(self, obs: Values) -> None:
        """End the rollout with the observations after its last step."""
        self._inbox.copy_(torch.from_numpy(obs))
        self.obs[-1].copy_(self._inbox)
