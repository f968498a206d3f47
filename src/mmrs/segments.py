"""Visits in order, and as padded rows that one batched call serves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class VisitSlots:
    """Visits of each environment in order, ``[N, 2T]``: slot 2t is s_t, slot 2t+1 the successor of step t."""

    index: Tensor
    """Where the state stands in `Rollout.states`."""
    counted: Tensor
    """bool: whether the slot is a visit (s_t is one only where an episode starts: else it was a successor before)."""
    episode: Tensor
    """Number of the episode within the rollout; 0 is the one carried over from before, if any."""

    @staticmethod
    def before(values: Tensor) -> Tensor:
        """Values ``[N, 2T]`` at s_t, as ``[T, N]``."""
        return values[:, 0::2].T

    @staticmethod
    def after(values: Tensor) -> Tensor:
        """Values ``[N, 2T]`` at the successors, as ``[T, N]``."""
        return values[:, 1::2].T


@dataclass(frozen=True)
class Segments:
    """Visited states as G rows of at most L visits, padded, so that one batched call serves them all."""

    index: Tensor
    """``[G, L]``: where the state stands in `Rollout.states`; 0 on padding."""
    mask: Tensor
    """``[G, L]`` bool: False on padding."""
    before: Tensor
    """``[T, N]``: where s_t stands in the rows, flattened; 0 at steps that are not valid."""
    after: Tensor
    """``[T, N]``: where s_{t+1} stands in the rows, flattened; 0 at steps that are not valid."""


def pack(slots: VisitSlots, rows: Tensor, valid: Tensor) -> Segments:
    """Gather the counted slots into dense rows, keeping their order.

    Args:
        slots: the visits.
        rows: ``[N, 2T]``, equal for slots that belong together.
        valid: ``[T, N]`` bool, the steps that count.
    """
    counted = slots.counted
    row_of_visit = torch.unique_consecutive(rows[counted], return_inverse=True)[1]
    count = int(row_of_visit[-1]) + 1 if len(row_of_visit) else 1  # without a visit one row of padding stands
    sizes = torch.bincount(row_of_visit, minlength=count)
    position = torch.arange(len(row_of_visit), device=counted.device) - (sizes.cumsum(0) - sizes)[row_of_visit]
    length = max(1, int(sizes.max()))
    place = row_of_visit * length + position
    index = torch.zeros(count * length, dtype=torch.int64, device=counted.device)
    index[place] = slots.index[counted]
    mask = torch.zeros(count * length, dtype=torch.bool, device=counted.device)
    mask[place] = True
    # Where each slot's visit stands; s_t inside an episode was visited as the successor of an earlier slot.
    where = torch.zeros_like(slots.index)
    where[counted] = place
    where = where.cummax(1).values
    before, after = (torch.where(valid, part, 0) for part in (VisitSlots.before(where), VisitSlots.after(where)))
    return Segments(index.view(count, length), mask.view(count, length), before, after)
