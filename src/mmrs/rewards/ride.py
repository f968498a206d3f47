"""RIDE: rewarding impact-driven exploration (Raileanu and Rocktäschel 2020; Appendix C.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn

from mmrs.fields import COUNT, FINITE, POSITIVE
from mmrs.functional.neighbors import squared_distances
from mmrs.nets.encoders import chunked, dense_encoder, make_encoder, seeded_init
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.options import configured
from mmrs.rewards.training import (
    TransitionBatch,
    decay_learning_rate,
    gradient_step,
    make_adam,
    step_blocks,
    update_running_mean,
)
from mmrs.rollout import Rollout

KERNEL_EPSILON = 1e-4
CLUSTER_DISTANCE = 0.008
"""Relative squared distance below which two embeddings are the same state (Badia et al. 2020, as the kernel)."""
SCALE_MOMENTUM = 0.99
QUERIES = 128
"""Steps whose counts are computed at once."""


@dataclass(frozen=True)
class RIDEConfig:
    """Options of RIDE."""

    latent_dim: Annotated[int, COUNT] = 128
    """Size of the embedding."""
    memory_size: Annotated[int, COUNT] = 512
    """Visits of the running episode that are remembered per environment."""
    learning_rate: Annotated[float, POSITIVE] = 1e-4
    """Learning rate of Adam."""
    total_updates: Annotated[int | None, COUNT] = None
    """Updates over which the learning rate falls linearly to 0. None: constant; in `mmrs train`: those of the run."""
    batch_size: Annotated[int, COUNT] = 256
    """Transitions per gradient step."""
    epochs: Annotated[int, COUNT] = 1
    """Passes over the rollout per update."""
    forward_weight: Annotated[float, FINITE] = 1.0
    """Weight of the forward loss. Eq. (21) has none."""
    inverse_weight: Annotated[float, FINITE] = 1.0
    """Weight of the inverse loss."""


class RIDE(IntrinsicReward):
    """``‖g(s') − g(s)‖ / √N(s')``: change of a learned embedding, divided by the root of the visits in the episode."""

    causal = True

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        config: RIDEConfig | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        config: the options; None: the defaults.
        seed: seed of weights and minibatches.
        **options: fields of `RIDEConfig` to replace.
        """
        super().__init__(observation_space, action_space, seed=seed)
        self.config = config = configured("ride", RIDEConfig, config, options)
        latent_dim = config.latent_dim
        self.episodic = EpisodicMemory(latent_dim, config.memory_size)
        actions = self.action_spec.size
        with seeded_init(self.generator):
            self.embedding = make_encoder(self.observation_spec, latent_dim)
            self.inverse = dense_encoder(2 * latent_dim, actions)
            self.forward_model = dense_encoder(latent_dim + actions, latent_dim)
        learned: list[nn.Module] = [self.embedding, self.inverse, self.forward_model]
        weights = (p for module in learned for p in module.parameters())
        self.optimizer = make_adam(weights, config.learning_rate, config.total_updates)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """Impact over the square root of the pseudo-count, at each true successor."""
        embeddings = chunked(self._embed, rollout.states)
        impact = (embeddings[rollout.next_state_index] - embeddings[rollout.state_index]).norm(dim=-1)
        count, memory = self.episodic.counts(rollout, embeddings, memory)
        return {"ride": impact * count.rsqrt()}, memory  # Eq. (22)

    def _embed(self, obs: Tensor) -> Tensor:
        out: Tensor = self.embedding(self.observation_spec.features(obs))
        return out

    def learn(self, rollout: Rollout) -> Metrics:
        """Train embedding, inverse model and forward model together on shuffled blocks of steps."""
        decay_learning_rate(self, self.config.learning_rate, self.config.total_updates)
        self.episodic.update_scale(rollout, self._embed)
        losses = []
        for _ in range(self.config.epochs):
            for steps in step_blocks(rollout.valid, self.config.batch_size, self.generator):
                batch = TransitionBatch(rollout, steps, self._embed, self.action_spec)
                inverse, forward = batch.inverse_loss(self.inverse), batch.forward_loss(self.forward_model)
                gradient_step(self, self.config.inverse_weight * inverse + self.config.forward_weight * forward)
                losses.append(torch.stack([inverse.detach(), forward.detach()]))
        inverse, forward = torch.stack(losses).mean(0)
        return {"inverse_loss": inverse, "forward_loss": forward}

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """An empty episodic memory."""
        return self.episodic.initial(num_envs, device)


class _Visits(NamedTuple):
    """Remembered and new visits, each ``[N, size + 2T]``; `keys` also has the axis of the embedding."""

    keys: Tensor
    counted: Tensor
    episode: Tensor
    position: Tensor


class EpisodicMemory(nn.Module):
    """Counts earlier visits of an embedding in its episode; similar embeddings count by an inverse kernel.

    ``N(x) = 1 + Σ ε / (max(d²/d_m² − ξ, 0) + ε)`` over the remembered visits of the episode: an exact revisit adds 1, a
    state a typical step away adds about ε. d_m² is the running mean of the squared distance of a step.

    # Unstated: the paper refers to the pseudo-counts of Ostrovski et al., a density model of images; this kernel needs
    # only the embedding that RIDE has anyway, and works for vectors too.
    """

    step_distance: Tensor

    def __init__(self, latent_dim: int, size: int) -> None:
        super().__init__()
        self.latent_dim, self.size = latent_dim, size
        self.register_buffer("step_distance", torch.zeros((), dtype=torch.float64))

    def initial(self, num_envs: int, device: torch.device) -> Memory:
        """Empty memory: `valid` marks the embeddings, newest last, that belong to the running episode."""
        return {
            "embeddings": torch.zeros(num_envs, self.size, self.latent_dim, device=device),
            "valid": torch.zeros(num_envs, self.size, dtype=torch.bool, device=device),
            "starts_episode": torch.ones(num_envs, dtype=torch.bool, device=device),
        }

    def counts(self, rollout: Rollout, embeddings: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Pseudo-count ``[T, N]`` of each successor, the visit itself included, and the new memory.

        Args:
            rollout: defines the order of visits and the ends of episodes.
            embeddings: ``[S, d]`` of `rollout.states`.
            memory: from `initial` or the previous call.
        """
        slots = rollout.visit_slots(memory["starts_episode"])
        keys = torch.cat([memory["embeddings"], embeddings[slots.index]], 1)  # [N, size + 2T, d]
        counted = torch.cat([memory["valid"], slots.counted], 1)
        episode = torch.cat([torch.zeros_like(memory["valid"], dtype=torch.int64), slots.episode], 1)
        position = counted.to(torch.int64).cumsum(1)  # index of the visit within its environment, from 1
        local = self._relative_to_first(keys, episode, position, counted)
        visits = _Visits(local, counted, episode, position)
        # Only successors get a count. In blocks: a long rollout has too many pairs of visits for one call.
        successors = torch.arange(self.size + 1, keys.shape[1], 2, device=keys.device)
        count = torch.cat([self._count(visits, queries) for queries in successors.split(QUERIES)], 1)
        return count.T, self._remember(rollout, keys, counted & (episode == episode[:, -1:]))

    def _count(self, visits: _Visits, queries: Tensor) -> Tensor:
        """Pseudo-counts ``[N, Q]`` of the visits in the slots `queries`."""
        age = visits.position[:, queries].unsqueeze(2) - visits.position.unsqueeze(1)  # [N, Q, size + 2T]
        same = visits.episode[:, queries].unsqueeze(2) == visits.episode.unsqueeze(1)
        seen = visits.counted.unsqueeze(1) & same & (age > 0) & (age <= self.size)
        relative = squared_distances(visits.keys[:, queries], visits.keys) / self._typical_step()
        kernel = KERNEL_EPSILON / ((relative - CLUSTER_DISTANCE).clamp_min_(0.0) + KERNEL_EPSILON)
        return 1.0 + (kernel * seen).sum(-1)

    @staticmethod
    def _relative_to_first(keys: Tensor, episode: Tensor, position: Tensor, counted: Tensor) -> Tensor:
        """Keys minus the first key of their episode: far from 0, float32 would round small steps away."""
        first = counted & (position == 1)
        first[:, 1:] |= episode[:, 1:] != episode[:, :-1]
        slot = torch.arange(keys.shape[1], device=keys.device)
        anchor = torch.where(first, slot, 0).cummax(1).values
        return keys - keys.gather(1, anchor.unsqueeze(-1).expand_as(keys))

    def _typical_step(self) -> Tensor:
        """Mean squared distance of a step; 1 before the first update, or if no step ever changed the embedding."""
        return torch.where(self.step_distance > 0, self.step_distance, 1.0).float()

    def _remember(self, rollout: Rollout, keys: Tensor, current: Tensor) -> Memory:
        """New memory: the newest visits of the running episodes, in order, the newest last."""
        from_end = current.flip(1).to(torch.int64).cumsum(1).flip(1)  # 1 for the newest
        keep = current & (from_end <= self.size)
        order = keep.to(torch.int8).sort(dim=1, stable=True).indices[:, -self.size :]
        valid = keep.gather(1, order)
        kept = keys.gather(1, order.unsqueeze(-1).expand(-1, -1, keys.shape[2])) * valid.unsqueeze(-1)
        return {"embeddings": kept, "valid": valid, "starts_episode": rollout.next_starts_episode}

    @torch.no_grad()
    def update_scale(self, rollout: Rollout, embed: Callable[[Tensor], Tensor]) -> None:
        """Update the running mean of the squared distance of a step, from a sample of the rollout's steps."""
        valid = rollout.valid.flatten().nonzero().squeeze(1)
        sample = valid[:: max(1, len(valid) // 128)]
        before, after = rollout.state_index.flatten()[sample], rollout.next_state_index.flatten()[sample]
        old, new = chunked(embed, rollout.states[torch.cat([before, after])]).chunk(2)
        distance = (new - old).double().square().sum(-1).mean()
        update_running_mean(self.step_distance, distance, SCALE_MOMENTUM)
