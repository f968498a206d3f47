"""Batched, masked k-means with a k-means++ start (Eq. 13): many small sets in one call, seeded, no host syncs."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from mmrs.functional.clustering_cpu import kmeans_of_one
from mmrs.functional.clustering_gpu import pick_starts
from mmrs.functional.neighbors import centred

TRIALS = 8
"""Candidates for each next centre, the best of which is taken: plain k-means++ ends a tenth above the inertia of
scikit-learn's best of ten starts in 3 of 10 sets, this one in 1 of 20."""
DIRECTIONS = 32
"""Directions in which a wide set (over twice as many dimensions) is clustered on the CPU: those it varies in most. It
costs 2 % of inertia or so in 256 and 512 dimensions, and saves two thirds of the time. A GPU takes wide sets whole, so
its labels are others than the CPU's."""
TABLE_STATES = 2048
"""States up to which all their distances are worked out at once; more would not fit."""


def kmeans(x: Tensor, mask: Tensor, k: int, generator: torch.Generator, iterations: int = 10) -> Tensor:
    """Labels ``[G, L]`` in 0..k-1 of each set's states (0 on padding).

    A set with fewer than k distinct states leaves some clusters empty; an empty cluster keeps its centre, so it can
    win states back in a later pass but never becomes NaN.

    Args:
        x: ``[G, L, d]`` states.
        mask: ``[G, L]`` bool, False on padding.
        k: clusters.
        generator: draws the k-means++ start, on the CPU; advanced by exactly ``TRIALS * G * k`` numbers.
        iterations: Lloyd passes.
    """
    return kmeans_from(x, mask, draw_starts(len(x), k, generator).to(x.device), iterations)


def draw_starts(sets: int, k: int, generator: torch.Generator) -> Tensor:
    """The random numbers ``[k, G, TRIALS]`` that decide the start of k-means."""
    return torch.rand(k, sets, TRIALS, generator=generator)


def kmeans_from(x: Tensor, mask: Tensor, draws: Tensor, iterations: int = 10) -> Tensor:
    """`kmeans` with its random numbers given: a pure function of tensors, which a GPU can replay as one graph."""
    x = centred(x, mask)
    whole, weight = not x.is_cuda and bool(mask.all()), mask.to(x.dtype)
    if x.shape[-1] > 2 * DIRECTIONS and not x.is_cuda:
        x = x @ _main_directions(x if whole else x * weight.unsqueeze(-1))
    if whole and len(x) == 1 and x.shape[1] <= TABLE_STATES:
        return kmeans_of_one(x[0], draws[:, 0], iterations).unsqueeze(0)
    held = x * weight.unsqueeze(-1)  # padding adds nothing to a cluster's sum
    centres = _plus_plus(held, weight, draws)
    labels = _nearest(x, centres)
    for _ in range(iterations):
        centres = _means(held, weight, labels, centres)
        previous, labels = labels, _nearest(x, centres)
        if not x.is_cuda and torch.equal(previous, labels):
            break  # settled: more passes change nothing (on a GPU asking would cost more than passing)
    return labels * mask


def inertia(x: Tensor, mask: Tensor, labels: Tensor, k: int) -> Tensor:
    """``[G]`` sum of squared distances to the cluster means: what Eq. (13) minimises."""
    weight = mask.to(x.dtype)
    nowhere = torch.zeros(x.shape[0], k, x.shape[2], dtype=x.dtype, device=x.device)
    centres = _means(x * weight.unsqueeze(-1), weight, labels, nowhere)
    own = centres.gather(1, labels.unsqueeze(-1).expand_as(x))
    return ((x - own).square().sum(-1) * weight).sum(-1)


def _main_directions(held: Tensor) -> Tensor:
    """``[G, d, DIRECTIONS]`` orthonormal directions that hold most of each set's spread (one power iteration)."""
    directions: Tensor = torch.linalg.qr(held.transpose(1, 2) @ (held @ _guess(held.shape[2], held.dtype))).Q
    return directions


@cache
def _guess(size: int, dtype: torch.dtype) -> Tensor:
    """Where the search for directions starts: anywhere, but always there."""
    return torch.randn(size, DIRECTIONS, generator=torch.Generator().manual_seed(0), dtype=dtype)


def _plus_plus(held: Tensor, weight: Tensor, draws: Tensor) -> Tensor:
    """Centres ``[G, k, d]``: candidates drawn in proportion to the squared distance so far, the one that lowers it most
    taken (greedy k-means++)."""
    lengths = held.square().sum(-1)  # [G, L]
    if held.shape[1] > TABLE_STATES:
        return _at(held, _picks(held, weight, draws, lengths, None))
    table = _distances(held, held, lengths, lengths, weight)
    by_kernel = pick_starts(table, weight, draws) if table.is_cuda and table.dtype == torch.float32 else None
    return _at(held, _picks(held, weight, draws, lengths, table) if by_kernel is None else by_kernel)


def _picks(held: Tensor, weight: Tensor, draws: Tensor, lengths: Tensor, table: Tensor | None) -> Tensor:
    """The places ``[G, k]`` of `_plus_plus`; `table` holds all distances ``[G, L, L]`` where they fit."""
    sets, length, _ = held.shape
    number = torch.arange(sets, device=held.device).unsqueeze(1)  # [G, 1]
    # Rows are picked by `index_select` from flattened tables: several times faster than indexing with two axes.
    rows = None if table is None else table.flatten(0, 1)
    nearest = weight
    picks: list[Tensor] = []
    bests: list[Tensor] = []
    for draw in draws.to(held.dtype):  # [G, trials]
        total = nearest.cumsum(1)
        pick = _first_above(total, draw * total[:, -1:])
        if rows is not None:
            closer = rows.index_select(0, _row_of(pick, number, length)).view(sets, -1, length)
        else:
            closer = _distances(held[number, pick], held, lengths.gather(1, pick), lengths, weight)
        closer = torch.minimum(nearest.unsqueeze(1), closer) if picks else closer  # [G, trials, L]
        best = _row_of(closer.sum(-1).argmin(1, keepdim=True), number, draw.shape[1])
        nearest = closer.flatten(0, 1).index_select(0, best)
        picks.append(pick.flatten())
        bests.append(best)
    return torch.stack(picks, 1).gather(0, torch.stack(bests, 1))


def _at(held: Tensor, index: Tensor) -> Tensor:
    """The states ``[G, k, d]`` at places ``[G, k]`` of each set."""
    return held.gather(1, index.unsqueeze(-1).expand(-1, -1, held.shape[2]))


def _first_above(total: Tensor, bound: Tensor) -> Tensor:
    """Where running sums ``[G, L]`` first pass each of the bounds ``[G, n]``; the last place if rounding says never."""
    if len(total) == 1:  # leaving the last place out makes it the answer without a call of its own
        return torch.searchsorted(total[:, :-1], bound, right=True)
    return torch.searchsorted(total, bound, right=True).clamp_max_(total.shape[1] - 1)


def _row_of(pick: Tensor, number: Tensor, length: int) -> Tensor:
    """Where picks ``[G, n]`` from sets of some length stand when the sets are joined."""
    return (pick if len(pick) == 1 else pick + number * length).flatten()


def _distances(chosen: Tensor, held: Tensor, chosen_lengths: Tensor, lengths: Tensor, weight: Tensor) -> Tensor:
    """Squared distances ``[G, C, L]`` of some states to all; 0 to padding."""
    # The floor keeps a draw possible where all states are taken (fewer distinct than k); elsewhere it does not matter.
    floor = torch.finfo(held.dtype).tiny ** 0.5
    apart = torch.baddbmm(lengths.unsqueeze(1), chosen, held.transpose(1, 2), alpha=-2.0)
    return apart.add_(chosen_lengths.unsqueeze(2)).clamp_min_(floor).mul_(weight.unsqueeze(1))


def _nearest(x: Tensor, centres: Tensor) -> Tensor:
    """Label of the nearest centre, ``[G, L]``; a state's own length is the same for every centre and is left out."""
    lengths = centres.square().sum(-1).unsqueeze(1)  # [G, 1, k]
    return torch.baddbmm(lengths, x, centres.transpose(1, 2), alpha=-2.0).argmin(-1)


def _means(held: Tensor, weight: Tensor, labels: Tensor, centres: Tensor) -> Tensor:
    """Mean state of each cluster; an empty cluster keeps the centre it had."""
    sums = torch.zeros_like(centres).scatter_add_(1, labels.unsqueeze(-1).expand_as(held), held)
    sizes = torch.zeros_like(centres[..., 0]).scatter_add_(1, labels, weight).unsqueeze(-1)
    return torch.where(sizes > 0, sums / sizes.clamp_min(1), centres)
