"""Advantages: generalised advantage estimation that tells termination from truncation and skips dummy steps."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.functional.recurrence import linear_recurrence


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
    """Generalised advantage estimates ``[T, N]`` (Schulman et al. 2016); returns are ``advantage + value``.

    A terminal state is worth nothing; a truncated step is bootstrapped from the value of the true last state; the
    trace stops at both. Steps that are not valid get 0 and stop the trace too.

    Args:
        reward: ``[T, N]``, extrinsic and intrinsic already added: whatever is not in it cannot reach the policy.
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
