"""Running statistics of network inputs, kept as buffers: saved and moved with the module."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningNorm(nn.Module):
    """Standardises inputs by the mean and variance of all it was updated with, clipped.

    Statistics change in `update` alone. They are float64 with the biased variance: one sample gives 0, never NaN.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(
        self, shape: tuple[int, ...], *, mean: float = 0.0, std: float = 1.0, floor: float, clip: float
    ) -> None:
        """Start from a guess (`mean`, `std`) that the first update replaces.

        Args:
            shape: shape of one input.
            mean: guess used until the first update.
            std: guess used until the first update.
            floor: least standard deviation divided by, so that an input that never moved cannot explode.
            clip: largest absolute output.
        """
        super().__init__()
        self.floor, self.clip = floor, clip
        self.register_buffer("mean", torch.full(shape, mean, dtype=torch.float64))
        self.register_buffer("variance", torch.full(shape, std**2, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Inputs ``[B, *shape]`` standardised and clipped; images in place, which saves memory traffic."""
        scale = self.variance.sqrt().clamp_min(self.floor).reciprocal()
        if x.ndim > 2:  # pixels stay near the origin, so float32 will do
            x.mul_(_channels_last(scale.float())).add_(_channels_last((-self.mean * scale).float()))
        else:
            x = ((x.double() - self.mean) * scale).float()  # a vector may lie far from it, where float32 is coarse
        return x.clamp_(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Take in a batch ``[B, *shape]`` (Chan, Golub and LeVeque's merge of two samples' moments)."""
        if not len(x):
            return
        variance, mean = _moments_of_bytes(x) if x.dtype == torch.uint8 else _moments(x)
        total = self.count + len(x)
        delta = mean - self.mean
        keep = self.count / total
        share = len(x) / total
        self.variance.copy_(self.variance * keep + variance * share + delta.square() * keep * share)
        self.mean.copy_(torch.where(self.count > 0, self.mean + delta * share, mean))
        self.count.copy_(total)


def _channels_last(image: Tensor) -> Tensor:
    """A single ``[C, H, W]`` laid out as images are; a mismatch makes the pass over them three times slower."""
    return image.movedim(0, -1).contiguous().movedim(-1, 0)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(x.double(), dim=0, correction=0)
    return variance, mean


def _moments_of_bytes(x: Tensor) -> tuple[Tensor, Tensor]:
    """The same for bytes, fifteen times faster: sums of 64 squared bytes are exact in float32."""
    total, squares = (torch.zeros(x.shape[1:], dtype=torch.float64, device=x.device) for _ in range(2))
    for part in x.split(64):
        values = part.float()
        total += values.sum(0)
        squares += values.square_().sum(0)
    mean = total / len(x)
    return (squares / len(x) - mean.square()).clamp_min_(0.0), mean
