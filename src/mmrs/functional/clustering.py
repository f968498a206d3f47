"""Batched, masked k-means with a k-means++ start (Eq. 13): many small sets in one call, seeded, no host syncs."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from mmrs.functional.clustering_cpu import kmeans_single
from mmrs.functional.clustering_triton import choose_centers_triton
from mmrs.functional.neighbors import centered

N_LOCAL_TRIALS = 8
"""Candidates for each next center, of which the best is taken. Plain k-means++ ends a tenth above the inertia of
scikit-learn's best of ten starts in 3 of 10 sets, this one in 1 of 20."""
PCA_DIM = 32
"""Main directions to which a wide set (over twice as many dimensions) is reduced on the CPU. It costs about 2 % of
inertia in 256 and 512 dimensions and saves two thirds of the time. A GPU clusters wide sets in all dimensions, so its
labels differ from the CPU's."""
MAX_TABLE_STATES = 2048
"""States up to which all their distances are computed at once; more would not fit into memory."""


def kmeans(x: Tensor, mask: Tensor, k: int, generator: torch.Generator, iterations: int = 10) -> Tensor:
    """Labels ``[G, L]`` in 0..k-1 of each set's states (0 on padding).

    A set with fewer than k distinct states leaves some clusters empty. An empty cluster keeps its center, so it can
    win states back in a later pass but never becomes NaN.

    Args:
        x: ``[G, L, d]`` states.
        mask: ``[G, L]`` bool, False on padding.
        k: number of clusters.
        generator: draws the k-means++ start, on the CPU; advanced by exactly ``N_LOCAL_TRIALS * G * k`` numbers.
        iterations: Lloyd passes.
    """
    return kmeans_from(x, mask, draw_init_noise(len(x), k, generator).to(x.device), iterations)


def draw_init_noise(sets: int, k: int, generator: torch.Generator) -> Tensor:
    """Uniform noise ``[k, G, N_LOCAL_TRIALS]`` that determines the start of k-means."""
    return torch.rand(k, sets, N_LOCAL_TRIALS, generator=generator)


def kmeans_from(x: Tensor, mask: Tensor, noise: Tensor, iterations: int = 10) -> Tensor:
    """`kmeans` with the noise of its start given: a pure function of tensors, which a GPU can replay as one graph."""
    x = centered(x, mask)
    unpadded, weight = not x.is_cuda and bool(mask.all()), mask.to(x.dtype)
    if x.shape[-1] > 2 * PCA_DIM and not x.is_cuda:
        x = x @ _randomized_pca(x if unpadded else x * weight.unsqueeze(-1))
    if unpadded and len(x) == 1 and x.shape[1] <= MAX_TABLE_STATES:
        return kmeans_single(x[0], noise[:, 0], iterations).unsqueeze(0)
    masked = x * weight.unsqueeze(-1)  # padding adds nothing to a cluster's sum
    centers = _kmeans_plus_plus(masked, weight, noise)
    labels = _nearest(x, centers)
    for _ in range(iterations):
        centers = _means(masked, weight, labels, centers)
        previous, labels = labels, _nearest(x, centers)
        if not x.is_cuda and torch.equal(previous, labels):
            break  # converged: more passes change nothing (on a GPU the check would cost more than the passes)
    return labels * mask


def inertia(x: Tensor, mask: Tensor, labels: Tensor, k: int) -> Tensor:
    """``[G]`` sum of squared distances to the cluster means, which Eq. (13) minimizes."""
    weight = mask.to(x.dtype)
    zeros = torch.zeros(x.shape[0], k, x.shape[2], dtype=x.dtype, device=x.device)
    centers = _means(x * weight.unsqueeze(-1), weight, labels, zeros)
    nearest = centers.gather(1, labels.unsqueeze(-1).expand_as(x))
    return ((x - nearest).square().sum(-1) * weight).sum(-1)


def _randomized_pca(masked: Tensor) -> Tensor:
    """``[G, d, PCA_DIM]`` orthonormal directions that hold most of each set's variance (one power iteration)."""
    directions: Tensor = torch.linalg.qr(masked.transpose(1, 2) @ (masked @ _sketch(masked.shape[2], masked.dtype))).Q
    return directions


@cache
def _sketch(size: int, dtype: torch.dtype) -> Tensor:
    """The random directions, always the same, from which `_randomized_pca` starts."""
    return torch.randn(size, PCA_DIM, generator=torch.Generator().manual_seed(0), dtype=dtype)


def _kmeans_plus_plus(masked: Tensor, weight: Tensor, noise: Tensor) -> Tensor:
    """Centers ``[G, k, d]`` of greedy k-means++.

    Candidates are drawn in proportion to their squared distance to the centers so far. The one that lowers the sum of
    these distances most is taken.
    """
    sq_lengths = masked.square().sum(-1)  # [G, L]
    if masked.shape[1] > MAX_TABLE_STATES:
        return _take(masked, _choose_centers(masked, weight, noise, sq_lengths, None))
    table = _sq_distances(masked, masked, sq_lengths, sq_lengths, weight)
    chosen = choose_centers_triton(table, weight, noise) if table.is_cuda and table.dtype == torch.float32 else None
    return _take(masked, _choose_centers(masked, weight, noise, sq_lengths, table) if chosen is None else chosen)


def _choose_centers(masked: Tensor, weight: Tensor, noise: Tensor, sq_lengths: Tensor, table: Tensor | None) -> Tensor:
    """Indices ``[G, k]`` of the centers of `_kmeans_plus_plus`; `table` holds all distances ``[G, L, L]`` if given."""
    sets, length, _ = masked.shape
    set_idx = torch.arange(sets, device=masked.device).unsqueeze(1)  # [G, 1]
    # Rows are picked by `index_select` from flattened tables: several times faster than indexing with two axes.
    rows = None if table is None else table.flatten(0, 1)
    nearest = weight
    candidates: list[Tensor] = []
    bests: list[Tensor] = []
    for uniform in noise.to(masked.dtype):  # [G, trials]
        total = nearest.cumsum(1)
        candidate = _first_above(total, uniform * total[:, -1:])
        if rows is not None:
            closer = rows.index_select(0, _flat_index(candidate, set_idx, length)).view(sets, -1, length)
        else:
            lengths = sq_lengths.gather(1, candidate)
            closer = _sq_distances(masked[set_idx, candidate], masked, lengths, sq_lengths, weight)
        closer = torch.minimum(nearest.unsqueeze(1), closer) if candidates else closer  # [G, trials, L]
        best = _flat_index(closer.sum(-1).argmin(1, keepdim=True), set_idx, uniform.shape[1])
        nearest = closer.flatten(0, 1).index_select(0, best)
        candidates.append(candidate.flatten())
        bests.append(best)
    return torch.stack(candidates, 1).gather(0, torch.stack(bests, 1))


def _take(masked: Tensor, index: Tensor) -> Tensor:
    """The states ``[G, k, d]`` at indices ``[G, k]`` of each set."""
    return masked.gather(1, index.unsqueeze(-1).expand(-1, -1, masked.shape[2]))


def _first_above(total: Tensor, bound: Tensor) -> Tensor:
    """First index where running sums ``[G, L]`` exceed bounds ``[G, n]``; the last one if rounding finds none."""
    if len(total) == 1:  # leaving the last index out makes it the answer without a further call
        return torch.searchsorted(total[:, :-1], bound, right=True)
    return torch.searchsorted(total, bound, right=True).clamp_max_(total.shape[1] - 1)


def _flat_index(index: Tensor, set_idx: Tensor, length: int) -> Tensor:
    """Indices ``[G, n]`` into sets of some length as indices into all sets in a row."""
    return (index if len(index) == 1 else index + set_idx * length).flatten()


def _sq_distances(chosen: Tensor, masked: Tensor, chosen_lengths: Tensor, sq_lengths: Tensor, weight: Tensor) -> Tensor:
    """Squared distances ``[G, C, L]`` of some states to all; 0 to padding."""
    # The floor keeps a draw possible where all states are taken (fewer distinct than k); elsewhere it does not matter.
    floor = torch.finfo(masked.dtype).tiny ** 0.5
    sq_dist = torch.baddbmm(sq_lengths.unsqueeze(1), chosen, masked.transpose(1, 2), alpha=-2.0)
    return sq_dist.add_(chosen_lengths.unsqueeze(2)).clamp_min_(floor).mul_(weight.unsqueeze(1))


def _nearest(x: Tensor, centers: Tensor) -> Tensor:
    """Label of the nearest center, ``[G, L]``; a state's own length is the same for every center and is left out."""
    sq_lengths = centers.square().sum(-1).unsqueeze(1)  # [G, 1, k]
    return torch.baddbmm(sq_lengths, x, centers.transpose(1, 2), alpha=-2.0).argmin(-1)


def _means(masked: Tensor, weight: Tensor, labels: Tensor, centers: Tensor) -> Tensor:
    """Mean state of each cluster; an empty cluster keeps the center it had."""
    sums = torch.zeros_like(centers).scatter_add_(1, labels.unsqueeze(-1).expand_as(masked), masked)
    sizes = torch.zeros_like(centers[..., 0]).scatter_add_(1, labels, weight).unsqueeze(-1)
    return torch.where(sizes > 0, sums / sizes.clamp_min(1), centers)
