"""Jain's fairness index of visits, its running curve and the shaping gain (Eqs. 10, 11 and 14).

Visits are rows of labels in visiting order, ``labels [G, L]``. Everything is counted in 64-bit integers, so a curve
computed in one call equals the same curve computed visit by visit, bit for bit, and nothing loops over visits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

_FIXED_POINT = 2.0**36
"""c log c is summed as an integer in units of 2^-36, so that no sum depends on the order of its terms."""


def jain_index(counts: Tensor) -> Tensor:
    """Jain's index of visit counts ``[..., S]``: (Σc)² / (S Σc²), Eq. (10); ``1/S`` where nothing was visited."""
    counts = counts.to(torch.int64)
    return jain_from_sums(counts.sum(-1), counts.square().sum(-1), counts.shape[-1])


def jain_from_sums(visits: Tensor, square_sum: Tensor, k: int) -> Tensor:
    """J from n = Σc and q = Σc² over k states (Eq. 10), in float64; the least value 1/k before the first visit."""
    n, q = visits.double(), square_sum.double()
    return torch.where(visits > 0, n * n / (k * q.clamp_min(1.0)), torch.full_like(n, 1.0 / k))


def gain(before: Tensor, after: Tensor, gamma_g: float) -> Tensor:
    """The shaping gain G = γ_G J(t+1) − J(t), Eq. (11)."""
    return gamma_g * after - before


@dataclass(frozen=True)
class VisitCurve:
    """Counts at each visit along rows of visits, ``[G, L]``; they include the visit itself, except `earlier`."""

    earlier: Tensor
    """int64: how often the same state was counted before this visit."""
    counted: Tensor
    """bool: whether this visit counts."""
    segments: Tensor
    """int64: index of the segment. Counts start at 0 with each; carried counts belong to segment 0."""
    carried: Tensor
    """``[G, k]`` int64: counts at the start of segment 0."""

    @cached_property
    def visits(self) -> Tensor:
        """Number n of visits counted so far."""
        return self._running(torch.ones_like(self.earlier), self.carried)

    @cached_property
    def square_sum(self) -> Tensor:
        """q = Σc², in O(1) per visit: a visit to a state seen c times adds 2c + 1."""
        return self._running(2 * self.earlier + 1, self.carried.square())

    @cached_property
    def distinct(self) -> Tensor:
        """States seen so far."""
        return self._running((self.earlier == 0).to(torch.int64), (self.carried > 0).to(torch.int64))

    def jain_index(self, k: int) -> Tensor:
        """The running J over k states, float64."""
        return jain_from_sums(self.visits, self.square_sum, k)

    def entropy(self) -> Tensor:
        """The running plug-in entropy log n − Σ c log c / n, in nats; float64."""
        logs = self._running(_c_log_c(self.earlier + 1) - _c_log_c(self.earlier), _c_log_c(self.carried))
        n = self.visits.clamp_min(1).double()
        return (n.log() - logs.double() / _FIXED_POINT / n).clamp_min(0.0)

    def _running(self, amount: Tensor, carried: Tensor) -> Tensor:
        """Sum of the amounts of the counted visits so far in the segment, and of the carried ones in segment 0."""
        opening = carried.sum(1, keepdim=True) * (self.segments == 0)
        return _restarted_sum(amount * self.counted, self.segments) + opening


def visit_curve(
    labels: Tensor,
    counted: Tensor | None = None,
    segments: Tensor | None = None,
    carried: Tensor | None = None,
) -> VisitCurve:
    """Counts along rows of visits, starting at 0 with each segment of a row.

    Args:
        labels: ``[G, L]`` state or cluster of each visit, from 0.
        counted: ``[G, L]`` bool; a visit that is not counted leaves every count alone. Default: all count.
        segments: ``[G, L]`` index of the segment (episode), not decreasing along a row. Default: all 0.
        carried: ``[G, k]`` int64 counts at the start of segment 0. Default: none.
    """
    counted = torch.ones_like(labels, dtype=torch.bool) if counted is None else counted
    segments = torch.zeros_like(labels) if segments is None else segments
    earlier = _earlier_in_segment(labels, counted, segments)
    if carried is None:
        carried = torch.zeros(len(labels), 1, dtype=torch.int64, device=labels.device)
    else:
        earlier = earlier + carried.gather(1, labels) * (segments == 0)
    return VisitCurve(earlier, counted, segments, carried)


def _c_log_c(counts: Tensor) -> Tensor:
    c = counts.double()
    out: Tensor = (torch.special.xlogy(c, c) * _FIXED_POINT).round().to(torch.int64)
    return out


def _earlier_in_segment(labels: Tensor, counted: Tensor, segments: Tensor) -> Tensor:
    """For each visit, the number of counted visits of the same row, segment and label before it."""
    if not labels.numel():
        return torch.zeros_like(labels)
    rows = torch.arange(len(labels), device=labels.device).unsqueeze(1)
    group = ((rows * (segments.max() + 1) + segments) * (labels.max() + 1) + labels).flatten()
    order = group.sort(stable=True).indices  # stable: within a group the visits stay in visiting order
    one = counted.flatten()[order].to(torch.int64)
    before = one.cumsum(0) - one
    first = torch.ones_like(order, dtype=torch.bool)
    first[1:] = group[order][1:] != group[order][:-1]
    base = torch.where(first, before, 0).cummax(0).values
    earlier = torch.empty_like(before).index_copy_(0, order, before - base)
    return earlier.view_as(labels)


def _restarted_sum(amounts: Tensor, segments: Tensor) -> Tensor:
    """Running sum of non-negative integers along each row, starting again at each segment."""
    total = amounts.cumsum(1)
    first = torch.zeros_like(segments, dtype=torch.bool)
    first[:, 1:] = segments[:, 1:] != segments[:, :-1]
    base = torch.where(first, total - amounts, 0).cummax(1).values
    return total - base
