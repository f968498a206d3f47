"""k-means of a single set on the CPU: the steps of the batched form in NumPy, in half of the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Values = NDArray[Any]


def kmeans_single(x: Tensor, draws: Tensor, iterations: int) -> Tensor:
    """Labels ``[L]`` of states ``[L, d]``, centered, no padding; `draws` are the ``[k, trials]`` of `kmeans_from`."""
    lengths, ones = x.square().sum(1, keepdim=True), torch.ones(len(x), 1, dtype=x.dtype)
    # Squared distances as one product of widened rows, which spares three passes over the table.
    table = torch.cat([-2.0 * x, lengths, ones], 1) @ torch.cat([x, ones, lengths], 1).t()
    # A tolerance per state: with one for all, a single large state would make all others count as equal.
    rounding = (16.0 * torch.finfo(x.dtype).eps * lengths[:, 0]).numpy()
    picks = _plus_plus(table.numpy(), draws.to(x.dtype).numpy(), rounding)
    points = torch.cat([x, ones], 1)  # their sums over a cluster give its size as well
    centers = points.numpy()[picks]
    labels = _nearest(points, centers)
    for _ in range(iterations):
        centers = _means(points, labels, centers)
        previous, labels = labels, _nearest(points, centers)
        if np.array_equal(previous, labels):
            break  # converged: more passes change nothing
    return torch.from_numpy(labels)


def _plus_plus(table: Values, draws: Values, rounding: Values) -> Values:
    """Indices of the first centers, k at most: greedy k-means++.

    Where fewer states are distinct than there are draws it stops with the last of them. Two equal centers would
    differ by their rounding alone, and so would the labels of equal states.
    """
    picks: list[int] = []
    # A sum of distances above `tol` means that some state is still uncovered.
    nearest, tol = np.ones(len(table), table.dtype), rounding.sum()
    for draw in draws:
        total = nearest.cumsum()
        pick = total[:-1].searchsorted(draw * total[-1], "right")  # the last index where rounding finds none
        closer = table.take(pick, 0)  # [trials, L]
        if picks:
            np.minimum(closer, nearest, out=closer)
        sums = np.add.reduce(closer, 1)
        best = sums.argmin()
        nearest = np.maximum(closer[best], 0.0)  # rounding may make the distance of equal states negative
        picks.append(pick[best])
        if sums[best] <= tol and (nearest <= rounding).all():
            break
    return np.array(picks)


def _nearest(points: Tensor, centers: Values) -> Values:
    """Label of the nearest center, ``[L]``; a state's own length is the same for every center and is left out."""
    widened = -2.0 * centers
    widened[:, -1] = np.square(centers[:, :-1]).sum(1)
    labels: Values = (points @ torch.from_numpy(widened).t()).numpy().argmin(1)
    return labels


def _means(points: Tensor, labels: Values, centers: Values) -> Values:
    """Mean state of each cluster, ``[k, d + 1]``, the last value 1; an empty cluster keeps the center it had."""
    sums = torch.zeros(centers.shape, dtype=points.dtype)
    means: Values = sums.index_add_(0, torch.from_numpy(labels), points).numpy()
    sizes = means[:, -1:].copy()
    means /= np.maximum(sizes, 1)
    return np.where(sizes > 0, means, centers)
