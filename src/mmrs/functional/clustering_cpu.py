"""k-means of one set on the CPU: the steps of the batched form in NumPy's cheaper calls, at half of the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Values = NDArray[Any]


def kmeans_of_one(x: Tensor, draws: Tensor, iterations: int) -> Tensor:
    """Labels ``[L]`` of states ``[L, d]``, centred, no padding; `draws` are the ``[k, trials]`` of `kmeans_from`."""
    lengths, ones = x.square().sum(1, keepdim=True), torch.ones(len(x), 1, dtype=x.dtype)
    # Squared distances as one product of widened rows, which spares three passes over the table.
    table = torch.cat([-2.0 * x, lengths, ones], 1) @ torch.cat([x, ones, lengths], 1).t()
    # Each state's own: one far off must not make all others look alike.
    rounding = (16.0 * torch.finfo(x.dtype).eps * lengths[:, 0]).numpy()
    picks = _plus_plus(table.numpy(), draws.to(x.dtype).numpy(), rounding)
    points = torch.cat([x, ones], 1)  # their sums over a cluster give its size as well
    centres = points.numpy()[picks]
    labels = _nearest(points, centres)
    for _ in range(iterations):
        centres = _means(points, labels, centres)
        previous, labels = labels, _nearest(points, centres)
        if np.array_equal(previous, labels):
            break  # settled: more passes change nothing
    return torch.from_numpy(labels)


def _plus_plus(table: Values, draws: Values, rounding: Values) -> Values:
    """Indices of the first centres, k at most: greedy k-means++.

    Where fewer states are distinct than there are draws it stops with the last of them. Two centres in one place would
    differ by their rounding alone, and so would the labels of equal states.
    """
    picks: list[int] = []
    nearest, few = np.ones(len(table), table.dtype), rounding.sum()  # more, and some state is farther than that
    for draw in draws:
        total = nearest.cumsum()
        pick = total[:-1].searchsorted(draw * total[-1], "right")  # the last place where rounding says none
        closer = table.take(pick, 0)  # [trials, L]
        if picks:
            np.minimum(closer, nearest, out=closer)
        sums = np.add.reduce(closer, 1)
        best = sums.argmin()
        nearest = np.maximum(closer[best], 0.0)  # of two states that are one, rounding may leave less
        picks.append(pick[best])
        if sums[best] <= few and (nearest <= rounding).all():
            break
    return np.array(picks)


def _nearest(points: Tensor, centres: Values) -> Values:
    """Label of the nearest centre, ``[L]``; a state's own length is the same for every centre and is left out."""
    widened = -2.0 * centres
    widened[:, -1] = np.square(centres[:, :-1]).sum(1)
    labels: Values = (points @ torch.from_numpy(widened).t()).numpy().argmin(1)
    return labels


def _means(points: Tensor, labels: Values, centres: Values) -> Values:
    """Mean state of each cluster, ``[k, d + 1]``, the last number 1; an empty cluster keeps the centre it had."""
    sums = torch.zeros(centres.shape, dtype=points.dtype)
    means: Values = sums.index_add_(0, torch.from_numpy(labels), points).numpy()
    sizes = means[:, -1:].copy()
    means /= np.maximum(sizes, 1)
    return np.where(sizes > 0, means, centres)
