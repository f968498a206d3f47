"""Collecting rollouts: acting, stepping, remembering; the true last states kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmrs.agents.normalise import ObsNormaliser
from mmrs.agents.policy import for_env
from mmrs.agents.ppo import PPO
from mmrs.envs.training import Episodes, TrainingEnvs
from mmrs.functional.distributions import gumbel
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
    """Steps environments with a policy; keeps the present observation between rollouts."""

    def __init__(
        self, envs: TrainingEnvs, ppo: PPO, num_steps: int, normaliser: ObsNormaliser | None, device: torch.device
    ) -> None:
        self.envs, self.ppo, self.num_steps, self.normaliser, self.device = envs, ppo, num_steps, normaliser, device
        self.generator = ppo.generator
        self.obs: Values = np.zeros(0)
        spec = ppo.observation
        dtype = np.float32 if normaliser else envs.observation_space.dtype
        self._obs = np.empty((num_steps + 1, envs.num_envs, *spec.shape), dtype)

    def start(self, seed: int) -> None:
        """Reset the environments."""
        self.obs = self._seen(self.envs.reset(seed))

    def _seen(self, obs: Values) -> Values:
        return self.normaliser.see(obs) if self.normaliser else obs

    @torch.no_grad()
    def collect(self) -> Collected:
        """T steps of every environment."""
        steps, count = self.num_steps, self.envs.num_envs
        noise = self._noise(steps, count)
        parameters, values, sampled = [], [], []
        rewards = np.empty((steps, count), np.float32)
        terminated, truncated = np.empty((2, steps, count), bool)
        taken, finals, episodes = [], [], Episodes()
        for t in range(steps):
            self._obs[t] = self.obs
            out, value = self.ppo.forward(torch.from_numpy(self._obs[t]).to(self.device))
            action = self.ppo.network.sample(out, noise[t])
            taken.append(for_env(action, self.ppo.network.action, self.envs.action_space))
            step = self.envs.step(taken[-1])
            self.obs = self._seen(step.obs)
            rewards[t], terminated[t], truncated[t] = step.reward, step.terminated, step.truncated
            if len(step.final_obs):
                finals.append(self.normaliser(step.final_obs) if self.normaliser else step.final_obs)
            if step.episodes.life_returns:
                extend(episodes, step.episodes)
            parameters.append(out)
            values.append(value)
            sampled.append(action)
        self._obs[steps] = self.obs
        rollout = Rollout(
            obs=torch.from_numpy(self._obs).clone(),
            actions=np.stack(taken),
            terminated=terminated,
            truncated=truncated,
            final_obs=np.concatenate(finals) if finals else None,
        ).to(self.device)
        actions = torch.stack(sampled)
        log_prob, _ = self.ppo.network.log_prob(torch.stack(parameters).flatten(0, 1), actions.flatten(0, 1))
        known = torch.stack(values)
        return Collected(
            rollout, actions, torch.from_numpy(rewards).to(self.device), log_prob.view(steps, count), known,
            self._next_values(rollout, known), episodes,
        )  # fmt: skip

    def _noise(self, steps: int, count: int) -> Tensor:
        """All random numbers of a rollout at once, from the agent's own generator."""
        shape = (steps, count, self.ppo.network.noise_size)
        if self.ppo.network.action.choices:
            return gumbel(torch.rand(shape, generator=self.generator)).to(self.device)
        return torch.randn(shape, generator=self.generator).to(self.device)

    def _next_values(self, rollout: Rollout, known: Tensor) -> Tensor:
        """Values of the true successors: known from the next step, but for last states and the final row."""
        new = torch.cat([rollout.obs[-1], rollout.final_obs])
        _, values = self.ppo.forward(new)
        return torch.cat([known.flatten(0, 1), values])[rollout.after]


def extend(total: Episodes, more: Episodes) -> None:
    """Add what ended in one step to what ended in a rollout."""
    total.life_returns.extend(more.life_returns)
    total.game_returns.extend(more.game_returns)
    total.game_lengths.extend(more.game_lengths)
    total.infos.extend(more.infos)
