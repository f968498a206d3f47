"""Vector-Jacobian products: run a network and return its output with a function from dL/doutput to dL/dweights.

The gradients of the losses here fit on a line each. Written out, they save more time on a CPU than a small network
takes, and a hundred tiny kernels on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

VJP = Callable[[Tensor], Tensor]
"""From dL/doutput: adds to the gradients of all weights; returns dL/dinput if wanted."""


def with_vjp(network: Callable[[Tensor], Tensor], x: Tensor, *, to_input: bool = False) -> tuple[Tensor, VJP]:
    """Any network's output and its VJP, by autograd; `to_input` if the gradient by the input is wanted."""
    x = x.detach().requires_grad_(to_input)
    with torch.enable_grad():
        out = network(x)

    def vjp(gradient: Tensor) -> Tensor:
        torch.autograd.backward(out, gradient)
        return gradient if x.grad is None else x.grad

    return out.detach(), vjp


def add_gradient(weight: nn.Parameter, gradient: Tensor) -> None:
    """Add to a weight's gradient, which may not exist yet."""
    if weight.grad is None:
        weight.grad = gradient
    else:
        weight.grad.add_(gradient)
