"""Distances between states of a batch of sets: one matrix product, never a loop over sets."""

from __future__ import annotations

import torch
from torch import Tensor


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """``[..., n, m]`` squared Euclidean distances of ``[..., n, d]`` and ``[..., m, d]``, never below 0."""
    cross = x @ y.transpose(-1, -2)
    return (x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2) - 2 * cross).clamp_min_(0.0)


def knn_distances(x: Tensor, mask: Tensor, k: int) -> Tensor:
    """Distance of each state to its k-th nearest other state in the same set, ‖x_i − x_i^k‖ in Eq. (19).

    A set with fewer than k other states uses the farthest there is; a single state gets 0.

    Args:
        x: ``[G, L, d]`` states.
        mask: ``[G, L]`` bool, False on padding.
        k: which neighbour.

    Returns:
        ``[G, L]``; 0 on padding.
    """
    sets, length, _ = x.shape
    # Centring each set keeps the products small, and with them the rounding of near-equal states.
    centre = (x * mask.unsqueeze(-1)).sum(1, keepdim=True) / mask.sum(1).clamp_min(1).view(sets, 1, 1)
    d2 = squared_distances(x - centre, x - centre)
    other = mask.unsqueeze(1) & ~torch.eye(length, dtype=torch.bool, device=x.device)
    nearest = d2.masked_fill(~other, torch.inf).topk(min(k, length), dim=-1, largest=False, sorted=True).values
    wanted = (mask.sum(1) - 1).clamp(1, nearest.shape[-1]) - 1  # last finite column where a set is small
    kth = nearest.gather(-1, wanted.view(sets, 1, 1).expand(sets, length, 1)).squeeze(-1)
    return torch.where(mask & kth.isfinite(), kth, torch.zeros_like(kth)).sqrt()
