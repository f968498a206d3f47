"""Action distributions as plain functions of network outputs: few small calls, noise from outside."""

from __future__ import annotations

import math

import torch
from torch import Tensor

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def gumbel(uniform: Tensor) -> Tensor:
    """Gumbel noise from uniform noise in [0, 1)."""
    return -torch.log(-torch.log(uniform.clamp(1e-20, 1.0 - 1e-7)))


def sample_choices(logits: Tensor, noise: Tensor, choices: tuple[int, ...]) -> Tensor:
    """One action per choice, ``[B, len(choices)]``: the largest of logits plus Gumbel noise is a categorical sample."""
    parts = torch.split(logits + noise, list(choices), -1)
    return torch.stack([part.argmax(-1) for part in parts], -1)


def choice_log_prob(logits: Tensor, actions: Tensor, choices: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Log probability and entropy, each ``[B]``, of actions ``[B, len(choices)]``, summed over the choices."""
    log_prob = entropy = torch.zeros((), device=logits.device)
    for i, part in enumerate(torch.split(logits, list(choices), -1)):
        logs = part.log_softmax(-1)
        log_prob = log_prob + logs.gather(-1, actions[:, i : i + 1]).squeeze(-1)
        entropy = entropy - (logs.exp() * logs).sum(-1)
    return log_prob, entropy


def gaussian_log_prob(mean: Tensor, log_std: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Log density and entropy, each ``[B]``, of a diagonal Gaussian with state-independent spread."""
    z = (actions - mean) * (-log_std).exp()
    log_prob = (-0.5 * z.square() - log_std - HALF_LOG_TWO_PI).sum(-1)
    entropy = (log_std + 0.5 + HALF_LOG_TWO_PI).sum(-1).expand_as(log_prob)
    return log_prob, entropy
