"""Observation and action specs: what a reward needs to know about Gymnasium's spaces."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional as nnf

from mmrs.errors import InputError, UnsupportedSpaceError

MIN_IMAGE_SIDE = 36
"""Smallest image side, in pixels, for the convolutions of the appendix and for the decoder."""
MAX_CHANNELS = 12
"""Most channels of an image: a stack of four RGB frames."""
MAX_JOINT_CHOICES = 6
"""Choices of an action that are combined into one index; further ones are ignored."""


@dataclass(frozen=True)
class ObservationSpec:
    """How to read an observation: as an image, a vector or a state index."""

    kind: Literal["image", "vector", "discrete"]
    shape: tuple[int, ...]
    """Shape of one observation as the environment gives it."""
    size: int
    """Features of a vector, states of a Discrete space, pixels times channels of an image."""
    dtype: torch.dtype
    channels: int = 0
    image_size: tuple[int, int] = (0, 0)
    """Height and width in pixels."""
    channels_last: bool = False
    start: int = 0
    """First state of a Discrete space."""

    def indices(self, obs: Tensor) -> Tensor:
        """Discrete observations as state indices from 0."""
        return obs.to(torch.int64) - self.start

    def images(self, obs: Tensor) -> Tensor:
        """Image observations ``[B, *shape]`` as uint8 ``[B, C, H, W]``, without a copy where possible."""
        if self.channels_last:  # [B, H, W, C], or a stack of such: [B, K, H, W, C]
            obs = obs.movedim(-1, -3)
        return obs.reshape(-1, self.channels, *self.image_size)

    def features(self, obs: Tensor) -> Tensor:
        """Observations ``[B, *shape]`` as network input: float ``[B, C, H, W]`` in pixel units, or ``[B, size]``."""
        if self.kind == "image":
            return _channels_last(self.images(obs).movedim(1, -1))
        if self.kind == "discrete":
            return nnf.one_hot(self.indices(obs), self.size).float()
        flat = obs.reshape(obs.shape[0], -1).float()
        return flat / 255.0 if self.dtype == torch.uint8 else flat

    def check(self, obs: Tensor, field: str) -> None:
        """Refuse observations ``[T, N, *shape]`` that are not of this space."""
        if tuple(obs.shape[2:]) != self.shape:
            raise InputError(
                f"{field} holds observations of shape {tuple(obs.shape[2:])}, but the reward was made for "
                f"{self.shape}. Make it with the observation space the rollout was collected from."
            )
        if self.kind != "discrete" and (self.dtype == torch.uint8) != (obs.dtype == torch.uint8):
            raise InputError(
                f"{field} is {obs.dtype}, but the observation space is {self.dtype}. Pass them unscaled, as the "
                "environment gives them."
            )
        if self.kind == "discrete" and obs.numel():
            _check_whole(obs, field)
            low, high = (int(v) for v in obs.aminmax())
            if low < self.start or high >= self.start + self.size:
                raise InputError(
                    f"{field} holds the state {low if low < self.start else high}, but the space is "
                    f"Discrete({self.size}, start={self.start})."
                )


@dataclass(frozen=True)
class ActionSpec:
    """How to read an action: as choices (one-hot, learned by cross entropy) or as real values (squared error)."""

    shape: tuple[int, ...]
    nvec: tuple[int, ...] = ()
    """Number of options of each choice; empty for a Box."""
    starts: tuple[int, ...] = ()
    """First option of each choice."""

    @property
    def size(self) -> int:
        """Length of an encoded action, and of the inverse model's output."""
        return sum(self.nvec) if self.nvec else prod(self.shape)

    def indices(self, actions: Tensor) -> Tensor:
        """Discrete actions ``[B, *shape]`` as option indices from 0, ``[B, choices]``."""
        flat = actions.reshape(actions.shape[0], -1).to(torch.int64)
        return flat - torch.tensor(self.starts, device=actions.device)

    def encode(self, actions: Tensor) -> Tensor:
        """Actions ``[B, *shape]`` as network input ``[B, size]``."""
        if not self.nvec:
            return actions.reshape(actions.shape[0], -1).float()
        indices = self.indices(actions)
        return torch.cat([nnf.one_hot(indices[:, i], n) for i, n in enumerate(self.nvec)], 1).float()

    def joint_index(self, actions: Tensor) -> Tensor:
        """One index from 0 per action ``[B, *shape]``: the joint choice, or the orthant of a Box."""
        if not self.nvec:
            signs = (actions.reshape(actions.shape[0], -1) > 0).to(torch.int64)
            return _joint_index(signs, (2,) * signs.shape[1])
        return _joint_index(self.indices(actions), self.nvec)

    def check(self, actions: Tensor) -> None:
        """Refuse actions that are not of this space; a Box action may lie outside its bounds, as policies' do."""
        if tuple(actions.shape[2:]) != self.shape:
            raise InputError(f"actions have shape {tuple(actions.shape[2:])} each, expected {self.shape}.")
        if not self.nvec or not actions.numel():
            return
        _check_whole(actions, "actions")
        indices = self.indices(actions.flatten(0, 1))
        wrong = (indices < 0) | (indices >= torch.tensor(self.nvec, device=actions.device))
        if bool(wrong.any()):
            row, column = (int(v) for v in wrong.nonzero()[0])
            raise InputError(
                f"actions hold {int(indices[row, column]) + self.starts[column]} for choice {column}, expected "
                f"{self.starts[column]} to {self.starts[column] + self.nvec[column] - 1}."
            )


def _joint_index(indices: Tensor, nvec: tuple[int, ...]) -> Tensor:
    """One index per row of ``[B, C]``, from its first `MAX_JOINT_CHOICES` choices."""
    joint = torch.zeros_like(indices[:, 0])
    for i, options in enumerate(nvec[:MAX_JOINT_CHOICES]):
        joint = joint * options + indices[:, i]
    return joint


def _channels_last(images: Tensor) -> Tensor:
    """uint8 ``[B, H, W, C]`` as float ``[B, C, H, W]`` with channels last in memory, fastest for convolutions.

    Strided input is copied channel by channel: torch's own strided conversion of bytes takes three times as long.
    """
    out = torch.empty(images.shape, dtype=torch.float32, device=images.device)
    if images.is_cuda or images.is_contiguous():
        out.copy_(images)
    else:
        for channel in range(images.shape[-1]):
            out[..., channel] = images[..., channel]
    return out.movedim(-1, 1)


def _check_whole(values: Tensor, field: str) -> None:
    """Refuse fractions in a discrete space; floats with whole values are accepted."""
    if values.is_floating_point() and bool((values != values.trunc()).any()):
        raise InputError(
            f"{field} is {values.dtype} and holds fractions, expected whole numbers: the space is discrete."
        )


def observation_spec(space: spaces.Space[object]) -> ObservationSpec:
    """Read an observation space.

    Images are uint8 boxes ``[H, W]``, ``[C, H, W]``, ``[H, W, C]`` or stacks ``[K, H, W, C]`` with sides from 36 and at
    most 12 channels in all. Every other Box is a vector (uint8 divided by 255). Discrete states are counted,
    and one-hot as network input.
    """
    if isinstance(space, spaces.Discrete):
        return ObservationSpec("discrete", (), int(space.n), torch.int64, start=int(space.start))
    if not isinstance(space, spaces.Box):
        raise UnsupportedSpaceError(
            f"observation space {type(space).__name__} is not supported; supported are Box (images and vectors) and "
            "Discrete. Wrap the environment with gymnasium.wrappers.FlattenObservation. A Dict with text needs a "
            "wrapper that picks one entry; for MiniGrid that is minigrid.wrappers.ImgObsWrapper."
        )
    shape, size = tuple(space.shape), prod(space.shape)
    dtype = torch.from_numpy(np.empty(0, space.dtype)).dtype
    if space.dtype == np.uint8:
        sides, channels, last = _image_layout(shape)
        if sides and min(sides) >= MIN_IMAGE_SIDE:
            return ObservationSpec("image", shape, size, dtype, channels, sides, last)
        if len(shape) > 2 and sorted(shape)[-2] >= MIN_IMAGE_SIDE:
            raise UnsupportedSpaceError(
                f"observations of shape {shape} look like images, but of no layout that is supported: [H, W], "
                f"[C, H, W], [H, W, C] or a stack [K, H, W, C], with at most {MAX_CHANNELS} channels in all. "
                "Stack fewer frames, or convert them to grayscale."
            )
    return ObservationSpec("vector", shape, size, dtype)


def _image_layout(shape: tuple[int, ...]) -> tuple[tuple[int, int] | None, int, bool]:
    """Sides, channels and whether the channels come last; no sides if the shape is not that of an image."""
    match shape:
        case (height, width):
            return (height, width), 1, False
        case (channels, height, width) if channels <= MAX_CHANNELS:
            return (height, width), channels, False
        case (height, width, channels) if channels <= MAX_CHANNELS:
            return (height, width), channels, True
        case (frames, height, width, channels) if frames * channels <= MAX_CHANNELS:
            return (height, width), frames * channels, True
    return None, 0, False


def action_spec(space: spaces.Space[object]) -> ActionSpec:
    """Read an action space: Discrete, MultiDiscrete, MultiBinary or Box."""
    if isinstance(space, spaces.Discrete):
        return ActionSpec((), (int(space.n),), (int(space.start),))
    if isinstance(space, spaces.MultiDiscrete):
        choices = tuple(int(n) for n in space.nvec.flatten())
        return ActionSpec(tuple(space.shape), choices, tuple(int(s) for s in np.asarray(space.start).flatten()))
    if isinstance(space, spaces.MultiBinary):
        return ActionSpec(tuple(space.shape), (2,) * prod(space.shape), (0,) * prod(space.shape))
    if isinstance(space, spaces.Box):
        return ActionSpec(tuple(space.shape))
    raise UnsupportedSpaceError(
        f"action space {type(space).__name__} is not supported; supported are Discrete, MultiDiscrete, MultiBinary and "
        "Box. Wrap the environment so that its action is one of these."
    )
