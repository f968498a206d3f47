"""Dense layers with Tanh and their gradient in NumPy: on a CPU small networks spend their time in bookkeeping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Values = NDArray[Any]
MIN_TORCH_WEIGHTS = 2**16
"""Weights of a layer above which torch's product is the faster one: the heads of the VAE have twice as many."""


class TanhLayers(nn.Sequential):
    """`nn.Sequential` of dense layers and Tanh: same weights, names and results, faster without autograd."""

    def forward(self, x: Tensor) -> Tensor:
        """Output of the last layer for ``[B, size]`` inputs."""
        return dense(x, list(self))


def dense(x: Tensor, layers: Sequence[nn.Module]) -> Tensor:
    """Apply `nn.Linear` and `nn.Tanh` layers to ``[B, size]`` inputs."""
    eager = not torch.is_grad_enabled() and not torch.compiler.is_compiling()
    plain = eager and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    for layer in layers:
        # NumPy's hyperbolic tangent takes a sixth of the time of torch's.
        x = torch.from_numpy(np.tanh(x.numpy())) if plain and isinstance(layer, nn.Tanh) else layer(x)
    return x


class DenseViews:
    """Dense layers for training on a CPU: NumPy views of weights and gradients, whose calls cost a third of torch's.

    Made for the steps of one update: valid for as long as weights and gradients keep their memory.
    """

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        """Args:
        layers: `nn.Linear`, each followed by `nn.Tanh` or not, whose gradients exist.
        """
        linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
        self._weights = [layer.weight.detach().numpy() for layer in linear]
        self._applied = [_applied(layer.weight.detach(), layer.bias.detach()) for layer in linear]
        self._gradients = [(_gradient(layer.weight), _gradient(layer.bias)) for layer in linear]
        followers = [*layers[1:], None]
        self._squashed = [
            isinstance(follower, nn.Tanh)
            for layer, follower in zip(layers, followers, strict=True)
            if isinstance(layer, nn.Linear)
        ]

    def values(self, x: Values) -> list[Values]:
        """The input ``[B, size]`` and what comes out of each layer, squashed where it is."""
        values = [x]
        for applied, squashed in zip(self._applied, self._squashed, strict=True):
            out = applied(values[-1])
            values.append(np.tanh(out, out=out) if squashed else out)
        return values

    def vjp(self, values: list[Values], gradient: Values, *, to_input: bool = False) -> Values:
        """From dL/doutput to the gradients of all weights, which are overwritten.

        Returns dL/dinput if it is wanted.
        """
        for i in reversed(range(len(self._weights))):
            if self._squashed[i]:
                gradient = gradient * (1.0 - values[i + 1] * values[i + 1])
            grad_weight, grad_bias = self._gradients[i]
            np.matmul(gradient.T, values[i], out=grad_weight)
            np.add.reduce(gradient, 0, out=grad_bias)
            if i or to_input:
                gradient = gradient @ self._weights[i]
        return gradient


def _applied(weight: Tensor, bias: Tensor) -> Callable[[Values], Values]:
    """The layer as a function. For many weights torch's product takes a fifth less time (batches of 64)."""
    if weight.numel() >= MIN_TORCH_WEIGHTS:
        return lambda x: torch.addmm(bias, torch.from_numpy(x), weight.t()).numpy()
    transposed, added = weight.numpy().T, bias.numpy()

    def apply(x: Values) -> Values:
        out: Values = x @ transposed
        out += added
        return out

    return apply


def _gradient(weight: Tensor) -> Values:
    assert weight.grad is not None, "the gradient must exist"
    return weight.grad.numpy()
