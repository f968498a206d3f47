"""Deterministic construction: networks drawn from a seed, the caller's random state left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn


@contextmanager
def drawn_from(generator: torch.Generator) -> Iterator[None]:
    """Layers built inside take their weights from `generator`, not from torch's global state."""
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which would also reseed every GPU.
        torch.default_generator.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield


Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def orthogonal(layer: Layer, gain: float = 2**0.5) -> Layer:
    """Orthogonal weights and zero bias: lower variance across seeds for random encoders than torch's default."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
