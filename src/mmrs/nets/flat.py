"""All weights of a network in one vector: clipping and Adam become one call each for any number of layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

MOMENTS = ("exp_avg", "exp_avg_sq")
"""State of Adam beside its step count."""


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


def can_flatten(network: nn.Module, optimizer: torch.optim.Optimizer | None) -> bool:
    """Whether `flattened` supports the network: every weight trained, by an Adam with one parameter group."""
    if type(optimizer) is not torch.optim.Adam or len(optimizer.param_groups) != 1:
        return False
    return all(p.requires_grad for p in network.parameters()) and not optimizer.param_groups[0]["amsgrad"]


@contextmanager
def flattened(network: nn.Module, optimizer: torch.optim.Adam) -> Iterator[torch.optim.Adam]:
    """Inside, the network's weights are views of one vector, with an Adam over it that continues from `optimizer`.

    Afterwards weights and moments are back in their own memory, with what was learned. Worthwhile for many small steps:
    one call per step in place of one per layer saves more than copying the weights twice costs.
    """
    own = [(layer, layer.data) for layer in network.parameters()]
    moments = {name: _joined(optimizer, [layer for layer, _ in own], name) for name in MOMENTS}
    steps = [optimizer.state[layer]["step"] for layer, _ in own if layer in optimizer.state]
    flat, group = flatten_parameters(network), optimizer.param_groups[0]
    same = {name: group[name] for name in ("lr", "betas", "eps", "weight_decay", "maximize")}
    whole = torch.optim.Adam([flat], **same, fused=True)
    whole.state[flat] = {"step": steps[0].clone() if steps else torch.zeros(()), **moments}
    try:
        yield whole
    finally:
        sizes = [data.numel() for _, data in own]
        parts = {name: moments[name].split(sizes) for name in MOMENTS}
        for i, (layer, data) in enumerate(own):
            data.copy_(layer.data)
            layer.data, layer.grad = data, None
            state = {name: parts[name][i].view_as(data).clone() for name in MOMENTS}
            optimizer.state[layer] = {"step": whole.state[flat]["step"].clone(), **state}


def _joined(optimizer: torch.optim.Adam, layers: list[nn.Parameter], name: str) -> Tensor:
    """A moment of all layers as one vector; zeros before the first step."""
    parts = [optimizer.state[layer][name] if layer in optimizer.state else torch.zeros_like(layer) for layer in layers]
    return torch.cat([part.detach().flatten() for part in parts])
