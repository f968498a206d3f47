"""Embeddings for landmarks: a frozen random network, the latent mean of a VAE, or inverse dynamics."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from mmrs.functional.losses import novelty
from mmrs.nets.encoders import chunked, dense_encoder, make_encoder
from mmrs.nets.normalization import ControllabilityNorm, InputNorm
from mmrs.nets.vae import VAE
from mmrs.rewards.training import INPUT_CLIP, TransitionBatch, minibatches, step_blocks
from mmrs.rollout import Rollout
from mmrs.spaces import ActionSpec, ObservationSpec

Scale = Literal["none", "std", "controllability"]


class Embedding(nn.Module):
    """Maps observations to vectors. A trained embedding defines its minibatches and its loss."""

    trained = False

    def __init__(self, spec: ObservationSpec, *, scale: Scale) -> None:
        super().__init__()
        self.spec = spec
        self.norm: InputNorm | None = None
        if scale != "none":
            norm = ControllabilityNorm if scale == "controllability" else InputNorm
            self.norm = norm(spec, INPUT_CLIP)

    @property
    def changes(self) -> bool:
        """Whether the embedding of an observation changes from update to update."""
        return self.trained or self.norm is not None

    def inputs(self, obs: Tensor) -> Tensor:
        """Network input of observations ``[B, *obs]``."""
        features = self.spec.features(obs)
        return features if self.norm is None else self.norm(features)

    def embed(self, obs: Tensor) -> Tensor:
        """Embeddings ``[B, d]`` of observations ``[B, *obs]``, in one pass."""
        raise NotImplementedError(f"{type(self).__name__} does not implement embed().")

    def forward(self, obs: Tensor) -> Tensor:
        """Embeddings ``[B, d]`` of observations ``[B, *obs]``, in chunks and without gradients."""
        with torch.no_grad():
            return chunked(self.embed, obs)

    def batches(self, rollout: Rollout, batch_size: int, generator: torch.Generator) -> list[Tensor]:
        """Minibatches of one pass over a rollout."""
        raise NotImplementedError(f"{type(self).__name__} is not trained.")

    def loss(self, rollout: Rollout, batch: Tensor, generator: torch.Generator) -> Tensor:
        """Mean loss of a minibatch."""
        raise NotImplementedError(f"{type(self).__name__} is not trained.")


class RandomEmbedding(Embedding):
    """A frozen random network: it roughly preserves distances and never drifts."""

    def __init__(self, spec: ObservationSpec, dim: int, *, scale: Scale) -> None:
        super().__init__(spec, scale=scale)
        self.network = make_encoder(spec, dim, normalized=scale != "none").requires_grad_(False)

    def embed(self, obs: Tensor) -> Tensor:
        """Embeddings of a chunk."""
        out: Tensor = self.network(self.inputs(obs))
        return out


class VAEEmbedding(Embedding):
    """The latent mean of a VAE. A small decoder variance keeps the posterior from collapsing."""

    trained = True

    def __init__(self, spec: ObservationSpec, dim: int, decoder_variance: float, *, scale: Scale) -> None:
        super().__init__(spec, scale=scale)
        self.decoder_variance = decoder_variance
        self.vae = VAE(spec, dim).eval()
        if spec.kind == "image":
            self.vae = self.vae.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def inputs(self, obs: Tensor) -> Tensor:
        """Standardized observations, or without a norm the input of the VAE of `mmrs`."""
        return self.vae.normalize(self.spec.features(obs)) if self.norm is None else super().inputs(obs)

    def embed(self, obs: Tensor) -> Tensor:
        """Latent means of a chunk."""
        mean: Tensor = self.vae.encode(self.inputs(obs))[0]
        return mean

    def novelty(self, obs: Tensor) -> Tensor:
        """N of each observation, ``[B]`` (Eq. 16), from the mean of the latent."""

        def error(part: Tensor) -> Tensor:
            x = self.inputs(part)
            return novelty(x, self.vae.decode(self.vae.encode(x)[0]), average=True)

        with torch.no_grad():
            return chunked(error, obs)

    def batches(self, rollout: Rollout, batch_size: int, generator: torch.Generator) -> list[Tensor]:
        """Shuffled visited states."""
        return list(minibatches(rollout.visited_index, batch_size, generator))

    def loss(self, rollout: Rollout, batch: Tensor, generator: torch.Generator) -> Tensor:
        """The negative ELBO, Eq. (15)."""
        x = self.inputs(rollout.states[batch])
        noise = torch.randn((len(x), self.vae.latent_dim), generator=generator).to(x.device)
        return self.vae.loss(x, noise, self.decoder_variance)[0]


class InverseEmbedding(Embedding):
    """An embedding trained to predict the action from two successive states, so it omits what no action changes."""

    trained = True

    def __init__(self, spec: ObservationSpec, actions: ActionSpec, dim: int, *, scale: Scale) -> None:
        super().__init__(spec, scale=scale)
        self.actions = actions
        self.network = make_encoder(spec, dim, normalized=scale != "none")
        self.inverse = dense_encoder(2 * dim, actions.size)

    def embed(self, obs: Tensor) -> Tensor:
        """Embeddings of a chunk."""
        out: Tensor = self.network(self.inputs(obs))
        return out

    def batches(self, rollout: Rollout, batch_size: int, generator: torch.Generator) -> list[Tensor]:
        """Shuffled blocks of valid steps."""
        return step_blocks(rollout.valid, batch_size, generator)

    def loss(self, rollout: Rollout, batch: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG002 (same call)
        """The inverse loss of Eq. (21)."""
        return TransitionBatch(rollout, batch, self.embed, self.actions).inverse_loss(self.inverse)
