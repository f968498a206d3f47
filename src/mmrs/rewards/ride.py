"""RIDE: rewarding impact-driven exploration (Raileanu and Rocktäschel 2020; Appendix C.2)."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from mmrs.nets.encoders import dense_encoder, in_chunks, make_encoder
from mmrs.nets.init import drawn_from
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.dynamics import TransitionBatch, step_blocks
from mmrs.rewards.episodic import EpisodicMemory
from mmrs.rewards.learning import adam, decay_learning_rate, gradient_step
from mmrs.rewards.options import require_counts, require_finite
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
