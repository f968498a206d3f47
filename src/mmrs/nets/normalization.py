"""Running statistics of network inputs, kept as buffers: saved and moved with the module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmrs.spaces import ObservationSpec


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


class InputNorm(RunningNorm):
    """Standardises the features of observations, pixel by pixel or number by number.

    Until statistics exist pixels are taken to fill their range; they vary by one grey level at least.
    """

    def __init__(self, spec: ObservationSpec, clip: float) -> None:
        image = spec.kind == "image"
        guess = {"mean": 127.5, "std": 127.5, "floor": 1.0} if image else {"mean": 0.0, "std": 1.0, "floor": 1e-3}
        super().__init__((spec.channels, *spec.image_size) if image else (spec.size,), **guess, clip=clip)
        self.spec = spec

    def observe(self, obs: Tensor) -> None:
        """Take in observations ``[B, *obs]``."""
        for part in obs.split(256):
            self.update(self.spec.images(part) if self.spec.kind == "image" else self.spec.features(part))


DOUBT = 100.0
"""Changes of a feature for which what they say against it is half believed."""


class ControlNorm(InputNorm):
    """Standardised features, each times how far its changes follow from where the agent is and what it does.

    The changes of a feature are told apart into what the place and the action explain and what varies all the same:
    ``weight = 1 - variance of the change given both / mean square of the change``. A feature that some action redraws
    at random gets next to no weight, however often the agent does it; one that never changed keeps its own. Places are
    told apart badly at first, so a feature is trusted until `DOUBT` changes or so have spoken against it; what is older
    than a hundred updates or so (`momentum`) is forgotten, and what changes less often than that is trusted for good.
    """

    within: Tensor
    total: Tensor
    changes: Tensor

    def __init__(self, spec: ObservationSpec, clip: float, *, momentum: float = 0.99) -> None:
        super().__init__(spec, clip)
        self.momentum = momentum
        self.register_buffer("within", torch.zeros_like(self.mean))
        self.register_buffer("total", torch.zeros_like(self.mean))
        self.register_buffer("changes", torch.zeros_like(self.mean))

    def weight(self) -> Tensor:
        """``[*shape]`` in 0..1."""
        share = torch.where(self.total > 0, self.within / self.total.clamp_min(1e-12), 0.0)
        return (1.0 - share * self.changes / (self.changes + DOUBT)).clamp(0.0, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        """Inputs ``[B, *shape]``, standardised and weighed."""
        weight = self.weight().float()
        return super().forward(x) * (_channels_last(weight) if x.ndim > 2 else weight)

    @torch.no_grad()
    def attribute(self, before: Tensor, after: Tensor, circumstance: Tensor) -> None:
        """Learn from transitions between observations ``[B, *obs]`` under numbered circumstances ``[B]``."""
        change = (self.spec.features(after) - self.spec.features(before)).flatten(1)  # [B, F]
        group, size = circumstance.unique(return_inverse=True, return_counts=True)[1:]
        seen_again = size > 1  # a single sample shows no variance
        none = change.new_zeros(len(size), change.shape[1])
        mean = none.index_add(0, group, change) / size.unsqueeze(1)
        unbiased = torch.where(seen_again, size / (size - 1).clamp_min(1), 0.0)[group].unsqueeze(1)
        within = ((change - mean[group]).square() * unbiased).sum(0)
        total = (change.square() * seen_again[group].unsqueeze(1)).sum(0)
        changes = ((change != 0) & seen_again[group].unsqueeze(1)).sum(0)
        for kept, new in ((self.within, within), (self.total, total), (self.changes, changes)):
            kept.mul_(self.momentum).add_(new.view_as(kept))


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
