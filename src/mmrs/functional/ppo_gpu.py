"""PPO's gradients and Adam's step on a GPU, one kernel each: as calls of torch they are ninety in sequence."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mmrs.functional.clustering_triton import triton_kernels

ROWS, BLOCK = 16, 1024
"""Transitions and weights of one program: enough programs to keep the GPU busy."""
MAX_ACTIONS = 1024
"""Actions of which a program still holds all its rows."""


class OldPolicy(NamedTuple):
    """Training data of B transitions: actions of one component, and the old policy's log probabilities and values."""

    actions: Tensor
    log_prob: Tensor
    values: Tensor
    returns: Tensor
    advantages: Tensor


def ppo_gradients(
    logits: Tensor,
    values: Tensor,
    old: OldPolicy,
    index: Tensor,
    *,
    clip: float,
    value_clip: float | None,
    entropy_weight: float,
    value_weight: float,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Gradients of the mean objective by logits ``[b, A]`` and values ``[b, heads]`` of the transitions in `index`.

    The third are policy loss, value loss, entropy, KL and whether the ratio was clipped, ``[5, b]``. None where the
    kernel cannot be had.
    """
    kernels, (batch, width), heads = triton_kernels("ppo_triton"), logits.shape, values.shape[1]
    if kernels is None or width > MAX_ACTIONS:
        return None
    grad_logits, grad_values, metrics = (
        logits.new_empty(shape) for shape in ((batch, width), (batch, heads), (5, batch))
    )
    room = max(16, 1 << (width - 1).bit_length())
    bound = math.inf if value_clip is None else value_clip
    weights = (clip, bound, -entropy_weight, value_weight)
    kernels.ppo_gradients[(-(-batch // ROWS),)](
        logits, values, index, *(part.contiguous() for part in old), grad_logits, grad_values, metrics,
        batch, width, logits.stride(0), values.stride(0), *weights, heads, ROWS, room,
    )  # fmt: skip
    return grad_logits, grad_values, metrics


def clipped_adam(weights: Tensor, optimizer: torch.optim.Adam, max_norm: float) -> Tensor | None:
    """Adam's step on a vector with its gradient scaled down to a norm; returns the norm it had.

    None where the kernel cannot be had, or the optimizer has no state yet.
    """
    kernels, state = triton_kernels("ppo_triton"), optimizer.state.get(weights)
    if kernels is None or not state:
        return None
    assert weights.grad is not None
    group: dict[str, Any] = optimizer.param_groups[0]
    norm: Tensor = torch.linalg.vector_norm(weights.grad)
    state["step"].add_(1)
    betas = group["betas"]
    kernels.clipped_adam[(-(-weights.numel() // BLOCK),)](
        weights, weights.grad, state["exp_avg"], state["exp_avg_sq"], norm, state["step"], group["lr"],
        weights.numel(), max_norm, *(1.0 - beta for beta in betas), *(math.log(beta) for beta in betas), group["eps"],
        BLOCK,
    )  # fmt: skip
    return norm
