"""Batched, masked k-means with a k-means++ start (Eq. 13): many small sets in one call, seeded, no host syncs."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.functional.neighbours import squared_distances


def kmeans(x: Tensor, mask: Tensor, k: int, generator: torch.Generator, iterations: int = 10) -> Tensor:
    """Labels ``[G, L]`` in 0..k-1 of each set's states (0 on padding).

    A set with fewer than k distinct states leaves some clusters empty; an empty cluster keeps its centre, so it can
    win states back in a later pass but never becomes NaN.

    Args:
        x: ``[G, L, d]`` states.
        mask: ``[G, L]`` bool, False on padding.
        k: clusters.
        generator: draws the k-means++ start, on the CPU; advanced by exactly ``G * k`` numbers.
        iterations: Lloyd passes.
    """
    draws = torch.rand(k, x.shape[0], generator=generator).to(x.device)
    centres = _plus_plus(x, mask, draws)
    weight = mask.to(x.dtype)
    for _ in range(iterations):
        centres = _means(x, weight, squared_distances(x, centres).argmin(-1), centres)
    return squared_distances(x, centres).argmin(-1) * mask


def inertia(x: Tensor, mask: Tensor, labels: Tensor, k: int) -> Tensor:
    """``[G]`` sum of squared distances to the cluster means: what Eq. (13) minimises."""
    weight = mask.to(x.dtype)
    centres = _means(x, weight, labels, torch.zeros(x.shape[0], k, x.shape[2], dtype=x.dtype, device=x.device))
    own = centres.gather(1, labels.unsqueeze(-1).expand_as(x))
    return ((x - own).square().sum(-1) * weight).sum(-1)


def _plus_plus(x: Tensor, mask: Tensor, draws: Tensor) -> Tensor:
    """Centres ``[G, k, d]``: each next one drawn with probability proportional to the squared distance so far."""
    rows = torch.arange(x.shape[0], device=x.device)
    d2 = squared_distances(x, x)  # every candidate centre is a state: one product serves all k draws
    nearest = mask.to(x.dtype)
    picks: list[Tensor] = []
    for draw in draws:
        # A set whose states are all taken (nearest is 0 everywhere) draws among its states again.
        total = nearest.cumsum(1)
        fallback = torch.where(total[:, -1:] > 0, total, mask.to(x.dtype).cumsum(1))
        pick = torch.searchsorted(fallback, draw.to(x.dtype).unsqueeze(1) * fallback[:, -1:], right=True)
        pick = pick.clamp_max(x.shape[1] - 1).squeeze(1)
        from_pick = d2[rows, pick] * mask
        nearest = from_pick if not picks else torch.minimum(nearest, from_pick)
        picks.append(pick)
    index = torch.stack(picks, 1)
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[2]))


def _means(x: Tensor, weight: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """Mean state of each cluster; an empty cluster keeps the centre it had."""
    sums = torch.zeros_like(centres).scatter_add_(1, labels.unsqueeze(-1).expand_as(x), x * weight.unsqueeze(-1))
    sizes = torch.zeros_like(centres[..., 0]).scatter_add_(1, labels, weight).unsqueeze(-1)
    return torch.where(sizes > 0, sums / sizes.clamp_min(1), centres)
