"""Action distributions as functions of network outputs, with gradients. The caller passes the noise of a sample."""

from __future__ import annotations

import math

import torch
from torch import Tensor

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def gumbel(uniform: Tensor) -> Tensor:
    """Gumbel noise from uniform noise in [0, 1)."""
    return -torch.log(-torch.log(uniform.clamp(1e-20, 1.0 - 1e-7)))


def sample_categorical(logits: Tensor, noise: Tensor, nvec: tuple[int, ...]) -> Tensor:
    """One action per component, ``[B, len(nvec)]``: the argmax of logits plus Gumbel noise is a categorical sample."""
    parts = torch.split(logits + noise, list(nvec), -1)
    picks = [part.argmax(-1, keepdim=True) for part in parts]
    return torch.cat(picks, -1) if len(picks) > 1 else picks[0]


def categorical_log_prob(logits: Tensor, actions: Tensor, nvec: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Log probability and entropy, each ``[B]``, of actions ``[B, len(nvec)]``, summed over the components."""
    log_prob = entropy = torch.zeros((), device=logits.device)
    for i, part in enumerate(torch.split(logits, list(nvec), -1)):
        logs = part.log_softmax(-1)
        log_prob = log_prob + logs.gather(-1, actions[:, i : i + 1]).squeeze(-1)
        entropy = entropy - (logs.exp() * logs).sum(-1)
    return log_prob, entropy


def gaussian_log_prob(mean: Tensor, log_std: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Log density and entropy, each ``[B]``, of a diagonal Gaussian with a state-independent standard deviation."""
    z = (actions - mean) * (-log_std).exp()
    log_prob = (-0.5 * z.square() - log_std - HALF_LOG_TWO_PI).sum(-1)
    entropy = (log_std + 0.5 + HALF_LOG_TWO_PI).sum(-1).expand_as(log_prob)
    return log_prob, entropy
