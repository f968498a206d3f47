"""Gradients without the graph of a loss: a network's output together with the way back, from slopes to weights.

The losses here have slopes that fit on a line each. Written out, they save what a CPU needs longer for than for a small
network itself, and what on a GPU is a hundred tiny kernels.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Pull = Callable[[Tensor], Tensor]
"""From a loss' slope by the output: adds to the gradients of all weights; returns the slope by the input if wanted."""


def with_pull(network: Callable[[Tensor], Tensor], x: Tensor, *, to_input: bool = False) -> tuple[Tensor, Pull]:
    """Any network's output and the way back, by torch's own graph; `to_input` if the slope by the input is wanted."""
    x = x.detach().requires_grad_(to_input)
    with torch.enable_grad():
        out = network(x)

    def pull(slope: Tensor) -> Tensor:
        torch.autograd.backward(out, slope)
        return slope if x.grad is None else x.grad

    return out.detach(), pull


def add_gradient(weight: nn.Parameter, slope: Tensor) -> None:
    """Add to a weight's gradient, which may not exist yet."""
    if weight.grad is None:
        weight.grad = slope
    else:
        weight.grad.add_(slope)
