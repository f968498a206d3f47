"""Distances between states of a batch of sets: one matrix product, never a loop over sets."""

from __future__ import annotations

import torch
from torch import Tensor


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """``[..., n, m]`` squared Euclidean distances of ``[..., n, d]`` and ``[..., m, d]``, never below 0."""
    cross = x @ y.transpose(-1, -2)
    return (x.square().sum(-1).unsqueeze(-1) + y.square().sum(-1).unsqueeze(-2) - 2 * cross).clamp_min_(0.0)


def centered(x: Tensor, mask: Tensor) -> Tensor:
    """Sets ``[G, L, d]`` minus their mean: keeps the products small, and so the rounding of near-equal states."""
    return x - (x * mask.unsqueeze(-1)).sum(1, keepdim=True) / mask.sum(1).clamp_min(1).view(-1, 1, 1)


def knn_distances(x: Tensor, mask: Tensor, k: int) -> Tensor:
    """Distance of each state to its k-th nearest other state in the same set, ‖x_i − x_i^k‖ in Eq. (19).

    A set with fewer than k other states uses the farthest there is; a single state gets 0.

    Args:
        x: ``[G, L, d]`` states.
        mask: ``[G, L]`` bool, False on padding.
        k: which neighbor.

    Returns:
        ``[G, L]``; 0 on padding.
    """
    sets, length, _ = x.shape
    x = centered(x, mask)
    d2 = squared_distances(x, x)
    other = mask.unsqueeze(1) & ~torch.eye(length, dtype=torch.bool, device=x.device)
    nearest = d2.masked_fill(~other, torch.inf).topk(min(k, length), dim=-1, largest=False, sorted=True).indices
    wanted = (mask.sum(1) - 1).clamp(1, nearest.shape[-1]) - 1  # last other state where a set is small
    kth = nearest.gather(-1, wanted.view(sets, 1, 1).expand(sets, length, 1))
    # The product picks the neighbor. Its distance is taken directly, so that a state met again is at exactly 0.
    distance = (x - x.gather(1, kth.expand_as(x))).norm(dim=-1)
    return torch.where(mask & (mask.sum(1, keepdim=True) > 1), distance, torch.zeros_like(distance))
