"""The clipped objective of PPO (Schulman et al. 2017) with its slopes, one value a transition."""

from __future__ import annotations

import torch
from torch import Tensor


def clipped_policy_loss(ratio: Tensor, advantage: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """``-min(r A, clip(r) A)`` and its slope by the log probability, each ``[B]``."""
    gained = ratio * advantage
    bounded = ratio.clamp(1.0 - clip, 1.0 + clip) * advantage
    return -torch.minimum(gained, bounded), torch.where(gained <= bounded, -gained, 0.0)


def clipped_value_loss(values: Tensor, old: Tensor, returns: Tensor, clip: float | None) -> tuple[Tensor, Tensor]:
    """Half the squared error of values ``[B, heads]``, the larger of a free and a bounded move, and its slope."""
    error = values - returns
    if clip is None:
        return 0.5 * error.square(), error
    bounded = old + (values - old).clamp(-clip, clip) - returns
    free = error.abs() >= bounded.abs()
    # A bounded value does not move; where the bound does not bind, both errors are one.
    slope = torch.where(free | ((values - old).abs() <= clip), error, 0.0)
    return 0.5 * torch.where(free, error, bounded).square(), slope
