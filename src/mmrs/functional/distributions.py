"""Action distributions as plain functions of network outputs, with slopes: few small calls, noise from outside."""

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
    picks = [part.argmax(-1, keepdim=True) for part in parts]
    return torch.cat(picks, -1) if len(picks) > 1 else picks[0]


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


def choice_slope(
    logits: Tensor, actions: Tensor, choices: tuple[int, ...], by_log_prob: Tensor, by_entropy: float
) -> Tensor:
    """Slope of a loss by the logits, from its slopes by log probability ``[B]`` and by entropy (one number)."""
    slopes = []
    for i, part in enumerate(torch.split(logits, list(choices), -1)):
        logs = part.log_softmax(-1)
        p = logs.exp()
        # The entropy -Σ p log p has the slope p (Σ p log p - log p); the log probability that of one action, less p.
        slope = p * (by_entropy * ((p * logs).sum(-1, keepdim=True) - logs) - by_log_prob.unsqueeze(-1))
        slopes.append(slope.scatter_add_(-1, actions[:, i : i + 1], by_log_prob.unsqueeze(-1)))
    return torch.cat(slopes, -1) if len(slopes) > 1 else slopes[0]


def gaussian_slope(
    mean: Tensor, log_std: Tensor, actions: Tensor, by_log_prob: Tensor, by_entropy: float
) -> tuple[Tensor, Tensor]:
    """Slopes of a loss by mean and by log spread, from its slopes by log density ``[B]`` and by entropy."""
    narrow = (-log_std).exp()
    z = (actions - mean) * narrow
    by_z = z * by_log_prob.unsqueeze(-1)
    return by_z * narrow, (by_z * z).sum(0) + (len(mean) * by_entropy - by_log_prob.sum())
