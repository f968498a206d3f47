"""RE3: random encoders for efficient exploration (Seo et al. 2021; Appendix C.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from gymnasium import spaces

from mmrs.fields import COUNT
from mmrs.functional.neighbors import knn_distances
from mmrs.nets.encoders import chunked, make_encoder, seeded_init
from mmrs.rewards.base import IntrinsicReward, Memory, Terms
from mmrs.rewards.options import configured
from mmrs.rollout import Rollout


@dataclass(frozen=True)
class RE3Config:
    """Options of RE3."""

    k: Annotated[int, COUNT] = 3
    """Which nearest neighbor (3 in Seo et al.)."""
    latent_dim: Annotated[int, COUNT] = 128
    """Size of the embedding."""
    trajectory: Literal["rollout", "episode"] = "rollout"
    """States to compare with: the "rollout" of the same environment, or the "episode" within it."""


class RE3(IntrinsicReward):
    """``log(‖x_i − x_i^k‖ + 1)``: distance of s_t to its k-th neighbor in the trajectory, in a random embedding."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        config: RE3Config | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        config: the options; None: the defaults.
        seed: seed of the random encoder.
        **options: fields of `RE3Config` to replace.
        """
        super().__init__(observation_space, action_space, seed=seed)
        self.config = config = configured("re3", RE3Config, config, options)
        with seeded_init(self.generator):
            self.encoder = make_encoder(self.observation_spec, config.latent_dim).requires_grad_(False)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The reward of s_t (index i in the paper)."""
        embeddings = chunked(lambda obs: self.encoder(self.observation_spec.features(obs)), rollout.states)
        segments = rollout.segments(self.config.trajectory)
        distance = knn_distances(embeddings[segments.index], segments.mask, self.config.k).flatten()
        return {"re3": torch.log1p(distance[segments.state_index])}, memory  # Eq. (20)
