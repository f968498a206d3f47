"""Jain's fairness index of visits, its running curve and the shaping gain (Eqs. 10, 11 and 14).

Visits are rows of labels in visiting order, ``labels [G, L]``. Everything is counted in 64-bit integers, so a curve
computed in one call equals the same curve computed visit by visit, bit for bit, and nothing loops over visits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


def jain_index(counts: Tensor) -> Tensor:
    """Jain's index of visit counts ``[..., S]``: (Σc)² / (S Σc²), Eq. (10); ``1/S`` where nothing was visited."""
    counts = counts.to(torch.int64)
    return index_of(counts.sum(-1), counts.square().sum(-1), counts.shape[-1])


def index_of(visits: Tensor, square_sum: Tensor, k: int) -> Tensor:
    """J from n = Σc and q = Σc² over k states (Eq. 10), in float64; the least value 1/k before the first visit."""
    n, q = visits.double(), square_sum.double()
    return torch.where(visits > 0, n * n / (k * q.clamp_min(1.0)), torch.full_like(n, 1.0 / k))


def gain(before: Tensor, after: Tensor, gamma_g: float) -> Tensor:
    """The shaping gain G = γ_G J(t+1) − J(t), Eq. (11)."""
    return gamma_g * after - before


@dataclass(frozen=True)
class VisitCurve:
    """What is known at each visit: all ``[G, L]`` int64, the visit itself included except in `earlier`."""

    earlier: Tensor
    """How often the same label was counted before this visit."""
    visits: Tensor
    """n: visits counted so far."""
    square_sum: Tensor
    """q = Σc² so far, kept in O(1) per visit: a visit to a state seen c times adds 2c + 1."""

    def index(self, k: int) -> Tensor:
        """The running J over k states, ``[G, L]`` float64."""
        return index_of(self.visits, self.square_sum, k)


def visit_curve(
    labels: Tensor,
    counted: Tensor | None = None,
    segments: Tensor | None = None,
    counts: Tensor | None = None,
) -> VisitCurve:
    """Counts along rows of visits, each segment of a row starting afresh.

    Args:
        labels: ``[G, L]`` state or cluster of each visit, 0 <= label < k.
        counted: ``[G, L]`` bool; a visit that is not counted leaves every count alone. Default: all count.
        segments: ``[G, L]`` number of the segment (episode), not decreasing along a row. Default: one segment a row.
        counts: ``[G, k]`` int64 counts at the start of a row's segment 0. Default: none.
    """
    counted = torch.ones_like(labels, dtype=torch.bool) if counted is None else counted
    segments = torch.zeros_like(labels) if segments is None else segments
    earlier = _earlier_in_segment(labels, counted, segments)
    opening_visits = opening_squares = torch.zeros_like(labels[:, :1])
    if counts is not None:
        carried = segments == 0  # what came before the first visit counts for segment 0 alone
        earlier = earlier + counts.gather(1, labels) * carried
        opening_visits, opening_squares = counts.sum(1, keepdim=True), counts.square().sum(1, keepdim=True)
    visits = _restarted_sum(counted.to(torch.int64), segments) + opening_visits * (segments == 0)
    squares = _restarted_sum((2 * earlier + 1) * counted, segments) + opening_squares * (segments == 0)
    return VisitCurve(earlier, visits, squares)


def _earlier_in_segment(labels: Tensor, counted: Tensor, segments: Tensor) -> Tensor:
    """For each visit, the number of counted visits of the same row, segment and label before it."""
    rows = torch.arange(labels.shape[0], device=labels.device).unsqueeze(1)
    width = int(labels.numel()) + 1  # more than any segment number can matter
    local = segments - segments[:, :1]
    key = (rows * width + local) * (labels.max() + 1 if labels.numel() else 1) + labels
    order = key.flatten().sort(stable=True).indices
    grouped = key.flatten()[order]
    running = counted.flatten()[order].to(torch.int64).cumsum(0)
    before = running - counted.flatten()[order].to(torch.int64)
    first = torch.ones_like(grouped, dtype=torch.bool)
    first[1:] = grouped[1:] != grouped[:-1]
    base = torch.where(first, before, torch.zeros_like(before)).cummax(0).values
    earlier = torch.empty_like(before)
    earlier[order] = before - base
    return earlier.view_as(labels)


def _restarted_sum(amounts: Tensor, segments: Tensor) -> Tensor:
    """Running sum of non-negative amounts along each row, starting again at each segment."""
    total = amounts.cumsum(1)
    first = torch.zeros_like(segments, dtype=torch.bool)
    first[:, 1:] = segments[:, 1:] != segments[:, :-1]
    base = torch.where(first, total - amounts, torch.zeros_like(total)).cummax(1).values
    return total - base
