"""RIDE: rewarding impact-driven exploration (Raileanu and Rocktäschel 2020; Appendix C.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn

from mmrs.functional.neighbors import squared_distances
from mmrs.nets.encoders import dense_encoder, drawn_from, in_chunks, make_encoder
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.options import require_counts, require_finite
from mmrs.rewards.training import TransitionBatch, adam, decay_learning_rate, gradient_step, step_blocks
from mmrs.rollout import Rollout


class RIDE(IntrinsicReward):
    """``‖g(s') − g(s)‖ / √N(s')``: change of a learned embedding, discounted by visits in the episode."""

    causal = True

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        latent_dim: int = 128,
        memory_size: int = 512,
        learning_rate: float = 1e-4,
        total_updates: int | None = None,
        batch_size: int = 256,
        epochs: int = 1,
        forward_weight: float = 1.0,
        inverse_weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        latent_dim: size of the embedding.
        memory_size: visits of the running episode that are remembered, an environment.
        learning_rate: of Adam.
        total_updates: updates over which the rate falls to 0; None: constant.
        batch_size: transitions a gradient step.
        epochs: passes over the rollout an update.
        forward_weight: weight of the forward loss. Eq. (21) has none.
        inverse_weight: weight of the inverse loss.
        seed: of weights and minibatches.
        """
        super().__init__(observation_space, action_space, seed=seed)
        require_counts("ride", latent_dim=latent_dim, memory_size=memory_size, batch_size=batch_size, epochs=epochs)
        require_finite("ride", forward_weight=forward_weight, inverse_weight=inverse_weight)
        self.learning_rate, self.total_updates = learning_rate, total_updates
        self.batch_size, self.epochs = batch_size, epochs
        self.forward_weight, self.inverse_weight = forward_weight, inverse_weight
        self.episodic = EpisodicMemory(latent_dim, memory_size)
        actions = self.action_spec.size
        with drawn_from(self.generator):
            self.embedding = make_encoder(self.observation_spec, latent_dim)
            self.inverse = dense_encoder(2 * latent_dim, actions)
            self.forward_model = dense_encoder(latent_dim + actions, latent_dim)
        learned: list[nn.Module] = [self.embedding, self.inverse, self.forward_model]
        self.optimizer = adam((p for module in learned for p in module.parameters()), learning_rate, total_updates)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """Impact over the square root of the pseudo-count, at each true successor."""
        embeddings = in_chunks(self._embed, rollout.states)
        impact = (embeddings[rollout.after] - embeddings[rollout.before]).norm(dim=-1)
        count, memory = self.episodic.counts(rollout, embeddings, memory)
        return {"ride": impact * count.rsqrt()}, memory  # Eq. (22)

    def _embed(self, obs: Tensor) -> Tensor:
        out: Tensor = self.embedding(self.observation_spec.features(obs))
        return out

    def learn(self, rollout: Rollout) -> Metrics:
        """Train embedding, inverse and forward model together on shuffled blocks of steps."""
        decay_learning_rate(self, self.learning_rate, self.total_updates)
        self.episodic.learn_scale(rollout, self._embed)
        losses = []
        for _ in range(self.epochs):
            for steps in step_blocks(rollout.valid, self.batch_size, self.generator):
                batch = TransitionBatch(rollout, steps, self._embed, self.action_spec)
                inverse, forward = batch.inverse_loss(self.inverse), batch.forward_loss(self.forward_model)
                gradient_step(self, self.inverse_weight * inverse + self.forward_weight * forward)
                losses.append(torch.stack([inverse.detach(), forward.detach()]))
        inverse, forward = torch.stack(losses).mean(0)
        return {"inverse_loss": inverse, "forward_loss": forward}

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """An empty episodic memory."""
        return self.episodic.initial(num_envs, device)


KERNEL_EPSILON = 1e-4
CLUSTER_DISTANCE = 0.008
"""Relative squared distance below which two embeddings are the same state (Badia et al. 2020, with the kernel)."""
SCALE_MOMENTUM = 0.99
QUERIES = 128
"""Steps whose counts are worked out at once."""


class _Visits(NamedTuple):
    """Remembered and new visits, all ``[N, size + 2T]``; `keys` has the embedding's axis too."""

    keys: Tensor
    counted: Tensor
    episode: Tensor
    position: Tensor


class EpisodicMemory(nn.Module):
    """Counts how often an embedding was met before in its episode, near misses by an inverse kernel.

    ``N(x) = 1 + Σ ε / (max(d²/d_m² − ξ, 0) + ε)`` over the remembered visits of the episode: an exact revisit adds 1, a
    state a typical step away adds about ε. d_m² is the running mean of the squared distance a step covers.

    # Unstated: the paper refers to the pseudo-counts of Ostrovski et al., a density model of images; this kernel needs
    # only the embedding that RIDE has anyway, and works for vectors too.
    """

    step_distance: Tensor

    def __init__(self, latent_dim: int, size: int) -> None:
        super().__init__()
        self.latent_dim, self.size = latent_dim, size
        self.register_buffer("step_distance", torch.zeros((), dtype=torch.float64))

    def initial(self, num_envs: int, device: torch.device) -> Memory:
        """Nothing remembered: `held` tells which of the embeddings, newest last, are of the running episode."""
        return {
            "embeddings": torch.zeros(num_envs, self.size, self.latent_dim, device=device),
            "held": torch.zeros(num_envs, self.size, dtype=torch.bool, device=device),
            "fresh": torch.ones(num_envs, dtype=torch.bool, device=device),
        }

    def counts(self, rollout: Rollout, embeddings: Tensor, memory: Memory) -> tuple[Tensor, Memory]:
        """Pseudo-count ``[T, N]`` of each successor, the visit itself included, and the new memory.

        Args:
            rollout: gives order of visits and ends of episodes.
            embeddings: ``[S, d]`` of `rollout.states`.
            memory: from `initial` or the previous call.
        """
        slots = rollout.visit_slots(memory["fresh"])
        keys = torch.cat([memory["embeddings"], embeddings[slots.index]], 1)  # [N, size + 2T, d]
        counted = torch.cat([memory["held"], slots.counted], 1)
        episode = torch.cat([torch.zeros_like(memory["held"], dtype=torch.int64), slots.episode], 1)
        position = counted.to(torch.int64).cumsum(1)  # the how-manieth visit of its environment
        local = self._from_anchor(keys, episode, position, counted)
        visits = _Visits(local, counted, episode, position)
        # The successors ask, a block of them at a time: long rollouts would need all pairs at once.
        successors = torch.arange(self.size + 1, keys.shape[1], 2, device=keys.device)
        count = torch.cat([self._block(visits, asking) for asking in successors.split(QUERIES)], 1)
        return count.T, self._remember(rollout, keys, counted & (episode == episode[:, -1:]))

    def _block(self, visits: _Visits, asking: Tensor) -> Tensor:
        """Pseudo-counts ``[N, Q]`` of the visits at the places `asking`."""
        age = visits.position[:, asking].unsqueeze(2) - visits.position.unsqueeze(1)  # [N, Q, size + 2T]
        same = visits.episode[:, asking].unsqueeze(2) == visits.episode.unsqueeze(1)
        seen = visits.counted.unsqueeze(1) & same & (age > 0) & (age <= self.size)
        relative = squared_distances(visits.keys[:, asking], visits.keys) / self._unit()
        kernel = KERNEL_EPSILON / ((relative - CLUSTER_DISTANCE).clamp_min_(0.0) + KERNEL_EPSILON)
        return 1.0 + (kernel * seen).sum(-1)

    @staticmethod
    def _from_anchor(keys: Tensor, episode: Tensor, position: Tensor, counted: Tensor) -> Tensor:
        """Keys less the first of their episode: embeddings far from 0 would lose small steps to rounding."""
        first = counted & (position == 1)
        first[:, 1:] |= episode[:, 1:] != episode[:, :-1]
        place = torch.arange(keys.shape[1], device=keys.device)
        anchor = torch.where(first, place, 0).cummax(1).values
        return keys - keys.gather(1, anchor.unsqueeze(-1).expand_as(keys))

    def _unit(self) -> Tensor:
        """Squared distance of a typical step; 1 before anything was learned, or where nothing ever moved."""
        return torch.where(self.step_distance > 0, self.step_distance, 1.0).float()

    def _remember(self, rollout: Rollout, keys: Tensor, current: Tensor) -> Memory:
        """Keep the newest visits of the running episodes, in order, the newest last."""
        from_end = current.flip(1).to(torch.int64).cumsum(1).flip(1)  # 1 for the newest
        keep = current & (from_end <= self.size)
        order = keep.to(torch.int8).sort(dim=1, stable=True).indices[:, -self.size :]
        held = keep.gather(1, order)
        kept = keys.gather(1, order.unsqueeze(-1).expand(-1, -1, keys.shape[2])) * held.unsqueeze(-1)
        return {"embeddings": kept, "held": held, "fresh": rollout.fresh_after}

    @torch.no_grad()
    def learn_scale(self, rollout: Rollout, embed: Callable[[Tensor], Tensor]) -> None:
        """Take a sample of the rollout's steps into the running mean of the squared distance of a step."""
        valid = rollout.valid.flatten().nonzero().squeeze(1)
        sample = valid[:: max(1, len(valid) // 128)]
        before, after = rollout.before.flatten()[sample], rollout.after.flatten()[sample]
        old, new = in_chunks(embed, rollout.states[torch.cat([before, after])]).chunk(2)
        distance = (new - old).double().square().sum(-1).mean()
        mean = SCALE_MOMENTUM * self.step_distance + (1 - SCALE_MOMENTUM) * distance
        self.step_distance.copy_(torch.where(self.step_distance > 0, mean, distance))
