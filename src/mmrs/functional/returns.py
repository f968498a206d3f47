"""Advantages and returns: linear recurrences along time, without a loop over steps."""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK_STEPS = 128
_BLOCK_ELEMENTS = 2**22
"""Bounds of a block of steps that is solved at once by a [t, u] product. With restarts the product is [t, u, N], so
many columns shrink the block."""


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    *,
    gamma: float,
    lam: float,
    valid: Tensor | None = None,
) -> Tensor:
    """Generalized advantage estimates ``[T, N]`` (Schulman et al. 2016); returns are ``advantage + value``.

    A terminal state has value 0. A truncated step is bootstrapped from the value of the true last state. The trace
    stops at both. Steps that are not valid get 0 and stop the trace too.

    Args:
        reward: ``[T, N]``, the sum of extrinsic and intrinsic reward.
        value: ``[T, N]`` V(s_t).
        next_value: ``[T, N]`` V(s_{t+1}) of the true successor, before any reset.
        terminated: ``[T, N]`` bool.
        truncated: ``[T, N]`` bool.
        gamma: discount.
        lam: trace decay.
        valid: ``[T, N]`` bool; default all.
    """
    error = reward + gamma * next_value * ~terminated - value
    stop = terminated | truncated
    if valid is not None:
        error = torch.where(valid, error, torch.zeros_like(error))
        stop = stop | ~valid
    backwards = linear_recurrence(error.flip(0), gamma * lam, torch.zeros_like(error[0]), stop.flip(0))
    return backwards.flip(0).to(error.dtype)


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
            segment = restart[start : start + block].to(torch.int64).cumsum(0)  # [t, N]: restarts so far
            same = segment.unsqueeze(1) == segment.unsqueeze(0)  # [t, u, N]
            y = (weight.unsqueeze(2) * same * part.unsqueeze(0)).sum(1)
            from_carry = from_carry * (segment == 0)
        blocks.append(y + from_carry * carry)
        carry = blocks[-1][-1]
    return torch.cat(blocks)
