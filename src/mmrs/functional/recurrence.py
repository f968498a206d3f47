"""Linear recurrences over time without a loop over time: running averages, return traces, GAE."""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK_STEPS = 128
_BLOCK_ELEMENTS = 2**22
"""A block of steps is solved at once by a [t, u] product; with restarts it is [t, u, N], so many rows shrink it."""


def linear_recurrence(x: Tensor, decay: float, initial: Tensor, restart: Tensor | None = None) -> Tensor:
    """``y[t] = x[t] + decay * y[t-1]`` along the first axis, with ``y[-1] = initial``; float64.

    Args:
        x: ``[T, N]``.
        decay: factor on the past, 0 to 1.
        initial: ``[N]``.
        restart: ``[T, N]`` bool; where True the past is dropped: ``y[t] = x[t]``.
    """
    x, carry, blocks = x.double(), initial.double(), []
    block = max(8, min(_BLOCK_STEPS, int((_BLOCK_ELEMENTS / max(1, x.shape[1])) ** 0.5)))
    for start in range(0, x.shape[0], block):
        part = x[start : start + block]
        length = part.shape[0]
        age = torch.arange(length, device=x.device)
        weight = torch.tril(decay ** (age.unsqueeze(1) - age).clamp_min(0).double())  # [t, u]: decay^(t-u), u <= t
        from_carry = decay ** (age + 1).double().unsqueeze(1).expand(length, part.shape[1])
        if restart is None:
            y = weight @ part
        else:
            piece = restart[start : start + block].to(torch.int64).cumsum(0)  # [t, N]: pieces between restarts
            same = piece.unsqueeze(1) == piece.unsqueeze(0)  # [t, u, N]
            y = (weight.unsqueeze(2) * same * part.unsqueeze(0)).sum(1)
            from_carry = from_carry * (piece == 0)
        blocks.append(y + from_carry * carry)
        carry = blocks[-1][-1]
    return torch.cat(blocks)
