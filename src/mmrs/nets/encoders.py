"""Encoders from observations to embeddings, for images, vectors and Discrete states; initialization of layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from mmrs.spaces import ObservationSpec

PIXEL_SCALE = 1.0 / 255.0


class ConvEncoder(nn.Module):
    """The convolutions of Mnih et al. (2015) and a dense layer: ``[B, C, H, W]`` pixels to ``[B, dim]``.

    Pixels come unscaled: their 1/255 is folded into the first kernel, which saves a pass over the images.
    """

    def __init__(self, spec: ObservationSpec, dim: int, input_scale: float = PIXEL_SCALE) -> None:
        super().__init__()
        self.input_scale = input_scale
        self.first = orthogonal_init(nn.Conv2d(spec.channels, 32, 8, stride=4))
        self.second = orthogonal_init(nn.Conv2d(32, 64, 4, stride=2))
        self.third = orthogonal_init(nn.Conv2d(64, 64, 3, stride=1))
        with torch.no_grad():
            features = self._convolve(torch.zeros(1, spec.channels, *spec.image_size)).shape[1]
        self.head = orthogonal_init(nn.Linear(features, dim), gain=1.0)

    def _convolve(self, x: Tensor) -> Tensor:
        x = nnf.relu_(nnf.conv2d(x, self.first.weight * self.input_scale, self.first.bias, stride=4))
        return nnf.relu_(self.third(nnf.relu_(self.second(x)))).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings ``[B, dim]``, linear in the last layer: a ReLU there would hide half of every change."""
        out: Tensor = self.head(self._convolve(x))
        return out


def dense_encoder(size: int, dim: int, hidden: int = 256) -> nn.Sequential:
    """One hidden layer for vectors and one-hot states: ``[B, size]`` to ``[B, dim]``."""
    return nn.Sequential(
        orthogonal_init(nn.Linear(size, hidden)), nn.ReLU(), orthogonal_init(nn.Linear(hidden, dim), gain=1.0)
    )


def make_encoder(spec: ObservationSpec, dim: int, *, normalized: bool = False) -> nn.Module:
    """The encoder of this kind of observation; `normalized` inputs are standardized already and are not rescaled."""
    if spec.kind == "image":
        encoder = ConvEncoder(spec, dim, 1.0 if normalized else PIXEL_SCALE)
        return encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
    return dense_encoder(spec.size, dim)


def chunked(f: Callable[..., Tensor], x: Tensor, *more: Tensor, size: int = 64) -> Tensor:
    """``f(x, ...)`` over chunks of the first axis: activations of a chunk stay in the cache, and memory is bounded.

    Vectors and tensors on a GPU gain nothing from small chunks; theirs are 64 times as large.
    """
    if x.is_cuda or x.ndim < 3:
        size *= 64
    if len(x) <= size:
        return f(x, *more)
    return torch.cat([f(*parts) for parts in zip(*(one.split(size) for one in (x, *more)), strict=True)])


@contextmanager
def seeded_init(generator: torch.Generator) -> Iterator[None]:
    """Initialize the layers built inside from `generator`, not from torch's global state."""
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which would also reseed every GPU.
        torch.default_generator.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        yield


Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def orthogonal_init(layer: Layer, gain: float = 2**0.5) -> Layer:
    """Orthogonal weights and zero bias: lower variance across seeds for random encoders than torch's default."""
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
