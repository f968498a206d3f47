"""Dense layers with Tanh, and their gradient by hand: on a CPU small networks wait for bookkeeping, not arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from mmrs.nets.pull import Pull, add_gradient, with_pull


class TanhLayers(nn.Sequential):
    """`nn.Sequential` of dense layers and Tanh: same weights, names and results, sooner where no graph is wanted."""

    def forward(self, x: Tensor) -> Tensor:
        """Output of the last layer for ``[B, size]`` inputs."""
        return dense(x, list(self))


def dense(x: Tensor, layers: Sequence[nn.Module]) -> Tensor:
    """Apply `nn.Linear` and `nn.Tanh` layers to ``[B, size]`` inputs."""
    if not torch.is_grad_enabled() and _is_plain(x):
        return _values(x, layers)[-1]
    for layer in layers:
        x = layer(x)
    return x


def dense_with_pull(x: Tensor, layers: Sequence[nn.Module], *, to_input: bool = False) -> tuple[Tensor, Pull]:
    """As `dense`, with the way back (see `with_pull`)."""
    if not _is_plain(x):
        return with_pull(lambda x: dense(x, layers).to(x.dtype), x, to_input=to_input)
    with torch.no_grad():
        values = _values(x, layers)

    @torch.no_grad()
    def pull(slope: Tensor) -> Tensor:
        for i in reversed(range(len(layers))):
            layer = layers[i]
            if not isinstance(layer, nn.Linear):
                slope = torch.ops.aten.tanh_backward(slope, values[i + 1])
                continue
            if layer.weight.grad is None:
                layer.weight.grad = slope.t() @ values[i]
            else:
                layer.weight.grad.addmm_(slope.t(), values[i])
            add_gradient(layer.bias, slope.sum(0))
            if i or to_input:
                slope = slope @ layer.weight
        return slope

    return values[-1], pull


def _is_plain(x: Tensor) -> bool:
    """Whether the ways of this file may be taken: eager, on the CPU, in full precision."""
    return x.device.type == "cpu" and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def _values(x: Tensor, layers: Sequence[nn.Module]) -> list[Tensor]:
    """The input and what comes out of each layer; of a layer that is squashed next, only what was squashed."""
    values = [x]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            values.append(torch.addmm(layer.bias, values[-1], layer.weight.t()))
        else:
            assert isinstance(layer, nn.Tanh)
            squashed = values[-1].numpy()
            np.tanh(squashed, out=squashed)  # torch's own takes six times as long
            values.append(values[-1])
    return values
