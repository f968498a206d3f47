"""All weights of a network in one vector: clipping and Adam become one call each, for any number of layers."""

from __future__ import annotations

import torch
from torch import nn


def flatten_parameters(network: nn.Module) -> nn.Parameter:
    """One parameter that holds every trained weight of the network, with its gradient; the layers become views of it.

    Move the network to its device before. Zero gradients in place (``flat.grad.zero_()``): set to None, the layers
    would get separate gradients again. Small networks spend more time in per-layer calls than in arithmetic.
    """
    layers = [p for p in network.parameters() if p.requires_grad]
    flat = nn.Parameter(torch.empty(sum(p.numel() for p in layers), dtype=layers[0].dtype, device=layers[0].device))
    flat.grad = torch.zeros_like(flat)
    start = 0
    for layer in layers:
        # The strides are kept: convolutions may be laid out channels last.
        geometry = (layer.shape, layer.stride(), start)
        view = flat.data.as_strided(*geometry)
        view.copy_(layer.data)
        layer.data, layer.grad = view, flat.grad.as_strided(*geometry)
        start += layer.numel()
    return flat
