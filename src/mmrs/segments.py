"""The visits of a rollout: in order per environment, and as padded rows for batched calls."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class VisitSlots:
    """Visits of each environment in order, ``[N, 2T]``: slot 2t is s_t, slot 2t+1 the successor of step t."""

    index: Tensor
    """Index of the state in `Rollout.states`."""
    counted: Tensor
    """bool: whether the slot is a visit. s_t is one only where an episode starts; else the slot before counted it."""
    episode: Tensor
    """Index of the episode within the rollout; 0 is the one that began in an earlier rollout, if any."""

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
    """Visited states as G rows of at most L visits, padded for batched calls."""

    index: Tensor
    """``[G, L]``: index of the state in `Rollout.states`; 0 on padding."""
    mask: Tensor
    """``[G, L]`` bool: False on padding."""
    state_index: Tensor
    """``[T, N]``: index of s_t in the flattened rows; 0 at steps that are not valid."""
    next_state_index: Tensor
    """``[T, N]``: index of s_{t+1} in the flattened rows; 0 at steps that are not valid."""


def pack(slots: VisitSlots, rows: Tensor, valid: Tensor) -> Segments:
    """Gather the counted slots into dense rows, keeping their order.

    Args:
        slots: the visits.
        rows: ``[N, 2T]``, equal for slots that belong together.
        valid: ``[T, N]`` bool, the steps that count.
    """
    counted = slots.counted
    row_of_visit = torch.unique_consecutive(rows[counted], return_inverse=True)[1]
    count = int(row_of_visit[-1]) + 1 if len(row_of_visit) else 1  # without a visit: one row of padding
    sizes = torch.bincount(row_of_visit, minlength=count)
    position = torch.arange(len(row_of_visit), device=counted.device) - (sizes.cumsum(0) - sizes)[row_of_visit]
    length = max(1, int(sizes.max()))
    slot = row_of_visit * length + position
    index = torch.zeros(count * length, dtype=torch.int64, device=counted.device)
    index[slot] = slots.index[counted]
    mask = torch.zeros(count * length, dtype=torch.bool, device=counted.device)
    mask[slot] = True
    # s_t inside an episode was visited as the successor of an earlier slot, so the last visit so far is the one.
    where = torch.zeros_like(slots.index)
    where[counted] = slot
    where = where.cummax(1).values
    before, after = (torch.where(valid, part, 0) for part in (VisitSlots.before(where), VisitSlots.after(where)))
    return Segments(index.view(count, length), mask.view(count, length), before, after)
