"""Training the VAE of vectors on a CPU: the same as `VAE.backward`, in NumPy and with one call for Adam."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mmrs.nets.dense import DenseViews, Values
from mmrs.nets.flat import flattened
from mmrs.nets.threads import torch_threads
from mmrs.nets.vae import LOG_VARIANCE, VAE


@torch.no_grad()
def train_dense(
    vae: VAE, optimizer: torch.optim.Adam, batches: Tensor, noise: Tensor, decoder_variance: float
) -> Tensor:
    """A gradient step on each batch of ``[M, B, size]``, with ``[M, B, latent]`` normal noise of the latents.

    Returns ``[2]``: means over the batches of KL and squared error.
    """
    measured = []
    with flattened(vae, optimizer) as adam, torch_threads():
        encoder = DenseViews((*vae.encoder.trunk, vae.encoder.heads))  # type: ignore[misc, arg-type]
        decoder = DenseViews(list(vae.decoder))  # type: ignore[call-overload]
        for x, drawn in zip(batches.numpy(), noise.numpy(), strict=True):
            measured.append(_gradient(encoder, decoder, x, drawn, decoder_variance))
            adam.step()
    return torch.tensor(measured).mean(0)


def _gradient(
    encoder: DenseViews, decoder: DenseViews, x: Values, noise: Values, decoder_variance: float
) -> tuple[float, float]:
    """Gradient of the batch's mean of Eq. (15) (`vae_loss`), term by term; mean KL and mean squared error."""
    share, latent = 1.0 / len(x), noise.shape[1]
    encoded = encoder.values(x)
    mean, unbounded = encoded[-1][:, :latent], encoded[-1][:, latent:]
    low, high = LOG_VARIANCE
    bounded = unbounded.min() < low or unbounded.max() > high  # rare, and it costs four passes
    log_variance = np.minimum(np.maximum(unbounded, low), high) if bounded else unbounded
    std = np.exp(0.5 * log_variance)
    drawn, variance = std * noise, std * std
    decoded = decoder.values(mean + drawn)
    away = decoded[-1] - x
    grad_z = decoder.vjp(decoded, away * (share / decoder_variance), to_input=True)
    gradient = np.empty_like(encoded[-1])
    grad_mean, grad_log_variance = gradient[:, :latent], gradient[:, latent:]
    np.multiply(mean, share, out=grad_mean)
    grad_mean += grad_z
    np.multiply(grad_z, drawn, out=grad_log_variance)
    grad_log_variance += (variance - 1.0) * share
    grad_log_variance *= 0.5
    if bounded:
        grad_log_variance *= unbounded == log_variance  # beyond its bounds it does not move
    encoder.vjp(encoded, gradient)
    squares = np.vdot(std, std) + np.einsum("ij,ij->", mean, mean)
    kl = 0.5 * (share * float(squares - log_variance.sum()) - latent)
    return kl, float(np.square(away).mean())
