"""Running statistics of inputs and of bonuses: one module for every mean and standard deviation that is tracked.

`RunningNorm` and its subclasses keep them as float64 buffers, saved and moved with the module. `ObsNormalizer` does the
same in NumPy while the agent acts. `RunningScale` is a pure function with explicit memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mmrs.functional.returns import linear_recurrence
from mmrs.spaces import ObservationSpec

Values = NDArray[Any]

PRIOR_COUNT = 100.0
"""Number of observed changes of a feature at which the estimate of its controllability gets weight 1/2."""


class RunningNorm(nn.Module):
    """Standardizes inputs by the mean and variance of all inputs it was updated with, and clips them.

    Only `update` changes the statistics. They are float64 with the biased variance: one sample gives 0, never NaN.
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
            floor: smallest standard deviation to divide by, so that a constant input cannot explode.
            clip: largest absolute output.
        """
        super().__init__()
        self.floor, self.clip = floor, clip
        self.register_buffer("mean", torch.full(shape, mean, dtype=torch.float64))
        self.register_buffer("variance", torch.full(shape, std**2, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Standardize and clip inputs ``[B, *shape]``; images in place, which saves memory traffic."""
        scale = self.variance.sqrt().clamp_min(self.floor).reciprocal()
        if x.ndim > 2:  # pixels stay near the origin, so float32 will do
            x.mul_(_channels_last(scale.float())).add_(_channels_last((-self.mean * scale).float()))
        else:
            x = ((x.double() - self.mean) * scale).float()  # a vector may lie far from it, where float32 is coarse
        return x.clamp_(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Add a batch ``[B, *shape]`` to the statistics (Chan, Golub and LeVeque's merge of two samples' moments)."""
        if not len(x):
            return
        variance, mean = _byte_moments(x) if x.dtype == torch.uint8 else _moments(x)
        total = self.count + len(x)
        delta = mean - self.mean
        keep = self.count / total
        share = len(x) / total
        self.variance.copy_(self.variance * keep + variance * share + delta.square() * keep * share)
        self.mean.copy_(torch.where(self.count > 0, self.mean + delta * share, mean))
        self.count.copy_(total)


class InputNorm(RunningNorm):
    """Standardizes the features of observations, each pixel or each component by itself.

    Until statistics exist, pixels are assumed to fill their range. Their standard deviation is at least one gray level.
    """

    def __init__(self, spec: ObservationSpec, clip: float) -> None:
        image = spec.kind == "image"
        guess = {"mean": 127.5, "std": 127.5, "floor": 1.0} if image else {"mean": 0.0, "std": 1.0, "floor": 1e-3}
        super().__init__((spec.channels, *spec.image_size) if image else (spec.size,), **guess, clip=clip)
        self.spec = spec

    def observe(self, obs: Tensor) -> None:
        """Add observations ``[B, *obs]`` to the statistics."""
        for part in obs.split(256):
            self.update(self.spec.images(part) if self.spec.kind == "image" else self.spec.features(part))


class ControllabilityNorm(InputNorm):
    """Standardizes features and multiplies each by how well the agent's state and action explain its changes.

    ``weight = 1 - residual variance of the change, given state and action / mean square of the change``. A feature that
    some action redraws at random gets a weight near 0, however often the agent takes it. A feature that never changed
    keeps weight 1.

    States are distinguished badly at first, so a feature is trusted until about `PRIOR_COUNT` of its changes were seen.
    The sums decay by `momentum` per update: changes older than about a hundred updates are forgotten, and a feature
    that changes less often than that stays trusted.
    """

    within: Tensor
    """Decaying sum of squared changes around the mean change of their condition."""
    total: Tensor
    """Decaying sum of squared changes."""
    changes: Tensor
    """Decaying number of changes that are not 0."""

    def __init__(self, spec: ObservationSpec, clip: float, *, momentum: float = 0.99) -> None:
        super().__init__(spec, clip)
        self.momentum = momentum
        self.register_buffer("within", torch.zeros_like(self.mean))
        self.register_buffer("total", torch.zeros_like(self.mean))
        self.register_buffer("changes", torch.zeros_like(self.mean))

    def weight(self) -> Tensor:
        """Weight of each feature, ``[*shape]`` in 0..1."""
        share = torch.where(self.total > 0, self.within / self.total.clamp_min(1e-12), 0.0)
        return (1.0 - share * self.changes / (self.changes + PRIOR_COUNT)).clamp(0.0, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        """Inputs ``[B, *shape]``, standardized and weighted."""
        weight = self.weight().float()
        return super().forward(x) * (_channels_last(weight) if x.ndim > 2 else weight)

    @torch.no_grad()
    def update_controllability(self, before: Tensor, after: Tensor, condition: Tensor) -> None:
        """Learn from transitions between observations ``[B, *obs]``.

        Args:
            before: observations before the step.
            after: observations after it.
            condition: ``[B]`` index of the pair of state and action. Pairs that occur once are ignored.
        """
        change = (self.spec.features(after) - self.spec.features(before)).flatten(1)  # [B, F]
        group, size = condition.unique(return_inverse=True, return_counts=True)[1:]
        repeated = size > 1  # a single sample shows no variance
        none = change.new_zeros(len(size), change.shape[1])
        mean = none.index_add(0, group, change) / size.unsqueeze(1)
        unbiased = torch.where(repeated, size / (size - 1).clamp_min(1), 0.0)[group].unsqueeze(1)
        within = ((change - mean[group]).square() * unbiased).sum(0)
        total = (change.square() * repeated[group].unsqueeze(1)).sum(0)
        changes = ((change != 0) & repeated[group].unsqueeze(1)).sum(0)
        for kept, new in ((self.within, within), (self.total, total), (self.changes, changes)):
            kept.mul_(self.momentum).add_(new.view_as(kept))


class ObsNormalizer:
    """Standardizes observations by the mean and variance of all observations the agent has seen, clipped to ±10.

    It runs at every step while the agent acts, so it is NumPy. Its order of operations differs from `RunningNorm`: a
    shared formula would round differently and change runs.
    """

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0) -> None:
        self.clip = clip
        self.mean, self.variance, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def update(self, obs: Values) -> Values:
        """Add observations ``[N, *shape]`` to the statistics, and return them normalized."""
        # Sums of differences from the running mean: fewer calls than mean and var, and as exact far from the origin.
        n, deviation = len(obs), obs - self.mean
        delta, total = np.add.reduce(deviation) / n, self.count + n
        deviation -= delta
        squares = np.add.reduce(deviation * deviation) + self.variance * self.count
        squares = squares + delta * delta * (self.count * n / total)
        self.mean, self.variance, self.count = self.mean + delta * (n / total), squares / total, total
        return self(obs)

    def __call__(self, obs: Values) -> Values:
        """Normalize without updating: for final states, which the agent never acts on, and for evaluation."""
        scaled: Values = (obs - self.mean) / np.sqrt(self.variance + 1e-8)
        np.minimum(np.maximum(scaled, -self.clip, out=scaled), self.clip, out=scaled)
        return scaled.astype(np.float32)

    def state(self) -> dict[str, Any]:
        """State for `restore`."""
        return {"mean": self.mean, "variance": self.variance, "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.mean, self.variance = np.array(state["mean"]), np.array(state["variance"])
        self.count = float(state["count"])


@dataclass(frozen=True)
class RunningScale:
    """Shift and divisor that bring a bonus to unit standard deviation, from decaying sums over all steps so far.

    A pure function with explicit memory. Where the bonus is causal, each step is scaled by what was known at that step,
    so that one call per step gives what one call for the whole rollout gives. Else one scale serves the rollout.
    """

    by: Literal["reward", "return"]
    """Divide by the std of the bonus itself, or of its discounted return (as random network distillation does)."""
    center: bool
    """Subtract the running mean, so that a longer episode is not rewarded by itself."""
    causal: bool
    gamma: float = 0.99
    """Discount of the return."""
    horizon: int = 12_800
    """Steps over which the past decays by 1/e: a hundred rollouts of 128 steps."""
    prior: float = 128.0
    """Prior pseudo-count: with few samples the std is shrunk towards the mean absolute bonus, so that the first rewards
    do not explode. The std of a handful of near-equal samples is close to 0."""

    def initial(self, num_envs: int, device: torch.device) -> dict[str, Tensor]:
        """Memory before the first step."""
        moments = torch.zeros(4, dtype=torch.float64, device=device)  # weight, Σ bonus, Σ x, Σ x²
        return {"moments": moments, "trace": torch.zeros(num_envs, dtype=torch.float64, device=device)}

    def __call__(
        self, bonus: Tensor, valid: Tensor, memory: dict[str, Tensor], done: Tensor | None = None
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Shift and divisor for each step, ``[T, 1]`` (or ``[1, 1]``), and the new memory: ``(bonus - shift) / scale``.

        Args:
            bonus: ``[T, N]``.
            valid: ``[T, N]`` bool; other steps do not enter the statistics.
            memory: from `initial` or the previous call.
            done: ``[T, N]`` bool, steps after which the return starts at 0. Default: it never does, since novelty
                does not end with an episode.
        """
        bonus = bonus.double() * valid
        # The bonus of a step that is not valid counts as 0 in the return: time passes there too.
        trace = bonus
        if self.by == "return":
            restart = None if done is None else torch.cat([torch.zeros_like(done[:1]), done[:-1]])
            trace = linear_recurrence(bonus, self.gamma, memory["trace"], restart)
        samples = trace * valid
        sums = torch.stack([valid.double(), bonus, samples, samples.square()]).sum(2).T  # [T, 4]
        moments = linear_recurrence(sums, 1.0 - 1.0 / self.horizon, memory["moments"])
        last = trace[-1] if done is None else torch.where(done[-1], 0.0, trace[-1])
        new = {"moments": moments[-1], "trace": last if self.by == "return" else memory["trace"]}
        weight, total, x, xx = (moments if self.causal else moments[-1:]).unbind(1)
        weight = weight.clamp_min(1e-12)
        mean = x / weight
        variance = (xx / weight - mean.square()).clamp_min(0.0)
        shrinkage = self.prior / (self.prior + weight)
        scale = (variance + shrinkage * mean.square()).sqrt()
        # A bonus that has not varied at all has no std to divide by; its absolute value takes its place.
        constant = variance <= 1e-14 * mean.square()
        scale = torch.where(constant, torch.where(mean == 0, 1.0, mean.abs()), scale)
        shift = total / weight if self.center else torch.zeros_like(total)
        return shift.unsqueeze(1), scale.unsqueeze(1), new


def _channels_last(image: Tensor) -> Tensor:
    """A single ``[C, H, W]`` laid out as images are; a mismatch makes the pass over them three times slower."""
    return image.movedim(0, -1).contiguous().movedim(-1, 0)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(x.double(), dim=0, correction=0)
    return variance, mean


def _byte_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """`_moments` of bytes, fifteen times faster: sums of 64 squared bytes are exact in float32."""
    total, squares = (torch.zeros(x.shape[1:], dtype=torch.float64, device=x.device) for _ in range(2))
    for part in x.split(64):
        values = part.float()
        total += values.sum(0)
        squares += values.square_().sum(0)
    mean = total / len(x)
    return (squares / len(x) - mean.square()).clamp_min_(0.0), mean
