"""RE3: random encoders for efficient exploration (Seo et al. 2021; Appendix C.1)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from gymnasium import spaces

from mmrs.functional.neighbors import knn_distances
from mmrs.nets.encoders import chunked, make_encoder, seeded_init
from mmrs.rewards.base import IntrinsicReward, Memory, Terms
from mmrs.rewards.options import require_choice, require_counts
from mmrs.rollout import Rollout


class RE3(IntrinsicReward):
    """``log(‖x_i − x_i^k‖ + 1)``: distance of s_t to its k-th neighbor in the trajectory, in a random embedding."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        k: int = 3,
        latent_dim: int = 128,
        trajectory: Literal["rollout", "episode"] = "rollout",
        seed: int = 0,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        k: which nearest neighbor (3 in Seo et al.).
        latent_dim: size of the embedding.
        trajectory: states to compare with: the "rollout" of the same environment, or the "episode" within it.
        seed: seed of the random encoder.
        """
        super().__init__(observation_space, action_space, seed=seed)
        require_counts("re3", k=k, latent_dim=latent_dim)
        require_choice("re3", ("rollout", "episode"), trajectory=trajectory)
        self.k, self.trajectory = k, trajectory
        with seeded_init(self.generator):
            self.encoder = make_encoder(self.observation_spec, latent_dim).requires_grad_(False)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The reward of s_t (index i in the paper)."""
        embeddings = chunked(lambda obs: self.encoder(self.observation_spec.features(obs)), rollout.states)
        segments = rollout.segments(self.trajectory)
        distance = knn_distances(embeddings[segments.index], segments.mask, self.k).flatten()
        return {"re3": torch.log1p(distance[segments.state_index])}, memory  # Eq. (20)
