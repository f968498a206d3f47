"""What a reward needs to know of the observation and action spaces, read once from Gymnasium's spaces."""

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

SMALLEST_IMAGE = 36
"""Fewest pixels a side that the convolutions of the appendix can read (and the smallest the decoder can draw)."""
MOST_CHANNELS = 12
"""A stack of four RGB frames."""
MOST_JOINT_CHOICES = 6


@dataclass(frozen=True)
class ObservationSpec:
    """How to read an observation: as an image, a vector or the number of a state."""

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

    def states(self, obs: Tensor) -> Tensor:
        """State numbers from 0 of Discrete observations."""
        return obs.to(torch.int64) - self.start

    def images(self, obs: Tensor) -> Tensor:
        """Image observations ``[B, *shape]`` as bytes ``[B, C, H, W]``, without a copy where that can be."""
        if self.channels_last:  # [B, H, W, C], or a stack of such: [B, K, H, W, C]
            obs = obs.movedim(-1, -3)
        return obs.reshape(-1, self.channels, *self.image_size)

    def features(self, obs: Tensor) -> Tensor:
        """Observations ``[B, *shape]`` as network input: float ``[B, C, H, W]`` in pixel units, or ``[B, size]``."""
        if self.kind == "image":
            return _channels_last(self.images(obs).movedim(1, -1))
        if self.kind == "discrete":
            return nnf.one_hot(self.states(obs), self.size).float()
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
    """How to read an action: as choices (one-hot, learned by cross entropy) or as numbers (squared error)."""

    shape: tuple[int, ...]
    choices: tuple[int, ...] = ()
    """Options of each choice; empty for a Box."""
    starts: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Length of an encoded action, and of the inverse model's output."""
        return sum(self.choices) if self.choices else prod(self.shape)

    def numbers(self, actions: Tensor) -> Tensor:
        """Discrete actions ``[B, *shape]`` as ``[B, choices]`` integers from 0."""
        flat = actions.reshape(actions.shape[0], -1).to(torch.int64)
        return flat - torch.tensor(self.starts, device=actions.device)

    def encode(self, actions: Tensor) -> Tensor:
        """Actions ``[B, *shape]`` as network input ``[B, size]``."""
        if not self.choices:
            return actions.reshape(actions.shape[0], -1).float()
        numbers = self.numbers(actions)
        return torch.cat([nnf.one_hot(numbers[:, i], n) for i, n in enumerate(self.choices)], 1).float()

    def kinds(self, actions: Tensor) -> Tensor:
        """Actions ``[B, *shape]`` as one number from 0 each: the joint choice, or the orthant of a Box."""
        if not self.choices:
            numbers = (actions.reshape(actions.shape[0], -1) > 0).to(torch.int64)
            return _joint(numbers, (2,) * numbers.shape[1])
        return _joint(self.numbers(actions), self.choices)

    def check(self, actions: Tensor) -> None:
        """Refuse actions that are not of this space; a Box action may lie outside its bounds, as policies' do."""
        if tuple(actions.shape[2:]) != self.shape:
            raise InputError(f"actions have shape {tuple(actions.shape[2:])} each, expected {self.shape}.")
        if not self.choices or not actions.numel():
            return
        _check_whole(actions, "actions")
        numbers = self.numbers(actions.flatten(0, 1))
        wrong = (numbers < 0) | (numbers >= torch.tensor(self.choices, device=actions.device))
        if bool(wrong.any()):
            row, column = (int(v) for v in wrong.nonzero()[0])
            raise InputError(
                f"actions hold {int(numbers[row, column]) + self.starts[column]} for choice {column}, expected "
                f"{self.starts[column]} to {self.starts[column] + self.choices[column] - 1}."
            )


def _joint(numbers: Tensor, choices: tuple[int, ...]) -> Tensor:
    """``[B, C]`` numbers as one each; where there are too many choices to tell apart the first ones decide."""
    joint = torch.zeros_like(numbers[:, 0])
    for i, options in enumerate(choices[:MOST_JOINT_CHOICES]):
        joint = joint * options + numbers[:, i]
    return joint


def _channels_last(images: Tensor) -> Tensor:
    """uint8 ``[B, H, W, C]`` as float ``[B, C, H, W]`` with the channels last in memory, which convolutions like best.

    Channel by channel, because torch's own strided conversion of bytes is three times slower.
    """
    out = torch.empty(images.shape, dtype=torch.float32, device=images.device)
    if images.is_cuda or images.is_contiguous():
        out.copy_(images)
    else:
        for channel in range(images.shape[-1]):
            out[..., channel] = images[..., channel]
    return out.movedim(-1, 1)


def _check_whole(numbers: Tensor, field: str) -> None:
    """Refuse fractions where choices or states are counted; whole floats are taken."""
    if numbers.is_floating_point() and bool((numbers != numbers.trunc()).any()):
        raise InputError(
            f"{field} is {numbers.dtype} and holds fractions, expected whole numbers: the space is discrete."
        )


def observation_spec(space: spaces.Space[object]) -> ObservationSpec:
    """Read an observation space.

    Images are uint8 boxes ``[H, W]``, ``[C, H, W]``, ``[H, W, C]`` or stacks ``[K, H, W, C]`` with sides from 36 and at
    most 12 channels in all; every other Box is a vector (uint8 divided by 255); Discrete states are counted, or one-hot
    where a network reads them.
    """
    if isinstance(space, spaces.Discrete):
        return ObservationSpec("discrete", (), int(space.n), torch.int64, start=int(space.start))
    if not isinstance(space, spaces.Box):
        raise UnsupportedSpaceError(
            f"observation space {type(space).__name__} is not supported; supported are Box (images and vectors) and "
            "Discrete. Wrap the environment with gymnasium.wrappers.FlattenObservation, or pick one entry of a Dict."
        )
    shape, size = tuple(space.shape), prod(space.shape)
    dtype = torch.from_numpy(np.empty(0, space.dtype)).dtype
    if space.dtype == np.uint8:
        sides, channels, last = _image_layout(shape)
        if sides and min(sides) >= SMALLEST_IMAGE:
            return ObservationSpec("image", shape, size, dtype, channels, sides, last)
        if len(shape) > 2 and sorted(shape)[-2] >= SMALLEST_IMAGE:
            raise UnsupportedSpaceError(
                f"observations of shape {shape} look like images, but of no layout that is supported: [H, W], "
                f"[C, H, W], [H, W, C] or a stack [K, H, W, C], with at most {MOST_CHANNELS} channels in all. "
                "Stack fewer frames, or turn them grey."
            )
    return ObservationSpec("vector", shape, size, dtype)


def _image_layout(shape: tuple[int, ...]) -> tuple[tuple[int, int] | None, int, bool]:
    """Sides, channels and whether the channels come last; no sides if the shape is no image's."""
    match shape:
        case (height, width):
            return (height, width), 1, False
        case (channels, height, width) if channels <= MOST_CHANNELS:
            return (height, width), channels, False
        case (height, width, channels) if channels <= MOST_CHANNELS:
            return (height, width), channels, True
        case (frames, height, width, channels) if frames * channels <= MOST_CHANNELS:
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
