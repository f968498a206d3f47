"""Losses and novelty scores of the paper, one value per state or transition. The caller averages."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as nnf


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, e^log_variance) ‖ N(0, I)) summed over the latent, ``[B, z] -> [B]``; first part of Eq. (15)."""
    return 0.5 * (log_variance.exp() + mean.square() - 1.0 - log_variance).sum(-1)


def vae_loss(x: Tensor, reconstruction: Tensor, mean: Tensor, log_variance: Tensor, decoder_variance: float) -> Tensor:
    """Negative ELBO of a Gaussian decoder, ``[B]`` (Eq. 15).

    # Deviation: Eq. (15) "minimizes" the ELBO itself; the negative is what can be minimized.
    """
    error = (x - reconstruction).square().flatten(1).sum(-1)
    return gaussian_kl(mean, log_variance) + 0.5 * error / decoder_variance


def novelty(x: Tensor, reconstruction: Tensor, *, average: bool) -> Tensor:
    """N(s) = ½‖Λ(s) − Λ(ŝ)‖² of normalized states, ``[B]`` (Eq. 16).

    # Deviation: `average` divides by the size of the observation. Summed over the 28,224 numbers of an Atari
    # observation N starts near 10,000, which drowns a clipped reward; the mean starts at 0.2 to 0.4.
    """
    error = 0.5 * (x - reconstruction).square().flatten(1)
    return error.mean(-1) if average else error.sum(-1)


def forward_loss(predicted: Tensor, embedding: Tensor) -> Tensor:
    """‖g_for(g_emb(s), a) − g_emb(s')‖², ``[B]``: first part of Eq. (21)."""
    return (predicted - embedding).square().sum(-1)


def categorical_loss(logits: Tensor, actions: Tensor, nvec: tuple[int, ...]) -> Tensor:
    """Cross entropy of discrete actions ``[B, len(nvec)]``, summed over the components: L_inv of Eq. (21)."""
    parts = torch.split(logits, list(nvec), 1)
    losses = [nnf.cross_entropy(part, actions[:, i], reduction="none") for i, part in enumerate(parts)]
    return torch.stack(losses).sum(0)


def continuous_loss(predicted: Tensor, actions: Tensor) -> Tensor:
    """Squared error of continuous actions ``[B, A]``, summed over the action: L_inv of Eq. (21)."""
    return (predicted - actions).square().sum(-1)


def distillation_error(predicted: Tensor, target: Tensor) -> Tensor:
    """‖ĥ(s) − h(s)‖², ``[B]``: the loss of Eq. (23) and the reward of Eq. (24)."""
    return (predicted - target).square().sum(-1)


def clipped_policy_loss(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """``-min(r A, clip(r) A)``, ``[B]``, of probability ratios r (Schulman et al. 2017, Eq. 7)."""
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def clipped_value_loss(values: Tensor, old: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """Half the squared error of values, ``[B, heads]``; with `clip`, at least that of the value's clipped change."""
    loss = 0.5 * (values - returns).square()
    if clip is None:
        return loss
    clipped = old + (values - old).clamp(-clip, clip)
    return torch.maximum(loss, 0.5 * (clipped - returns).square())
