"""Advantages and returns of extrinsic reward plus bonus. The bonus is added here, before advantages are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from mmrs.fields import FINITE, SHARE
from mmrs.functional.returns import gae


@dataclass(frozen=True)
class MixingConfig:
    """How extrinsic reward and bonus are combined into one learning signal."""

    mode: Literal["sum", "two_heads"] = "sum"
    """Add the bonus to the reward (Algorithm 1), or give it a value head of its own and add the advantages."""
    extrinsic_weight: Annotated[float, FINITE] = 1.0
    """Weight of the extrinsic reward; 0 trains on the bonus alone."""
    intrinsic_gamma: Annotated[float, SHARE] = 0.99
    """Discount factor of the bonus, with two heads."""
    intrinsic_episodic: bool = True
    """End the return of the bonus with the episode, with two heads; if not, it runs on (Burda et al. 2019)."""


class Advantages(NamedTuple):
    """Targets of an update, and the bonus' share in them."""

    advantages: Tensor
    """``[T, N]``"""
    returns: Tensor
    """``[T, N, heads]``"""
    bonus_share: Tensor
    """Share of the advantages' variance that the bonus causes, 0 to 1; 0 means that the bonus has no effect."""


def mixed_advantages(
    terminated: Tensor,
    truncated: Tensor,
    valid: Tensor,
    reward: Tensor,
    bonus: Tensor,
    values: Tensor,
    next_values: Tensor,
    *,
    mixing: MixingConfig,
    gamma: float,
    lam: float,
) -> Advantages:
    """Advantages and returns of extrinsic `reward` and `bonus`. Takes tensors only, so that a GPU can capture it.

    Values are ``[T, N, heads]``, everything else is ``[T, N]``; the first three are as in a `Rollout`.
    """
    reward = mixing.extrinsic_weight * reward
    ended = (terminated, truncated)
    zeros = torch.zeros_like(reward)
    if mixing.mode == "sum":
        caused = gae(bonus, zeros, zeros, *ended, gamma=gamma, lam=lam, valid=valid)
        total = gae(reward + bonus, values[..., 0], next_values[..., 0], *ended, gamma=gamma, lam=lam, valid=valid)
        return Advantages(total, (total + values[..., 0]).unsqueeze(-1), _share(caused, total - caused))
    extrinsic = gae(reward, values[..., 0], next_values[..., 0], *ended, gamma=gamma, lam=lam, valid=valid)
    if not mixing.intrinsic_episodic:
        # The return of the bonus runs on into the next episode, which starts with the state after the reset.
        start_values = torch.cat([values[1:, :, 1], next_values[-1:, :, 1]])
        next_values = next_values.clone()
        next_values[..., 1] = torch.where((terminated | truncated) & valid, start_values, next_values[..., 1])
        ended = (torch.zeros_like(ended[0]), torch.zeros_like(ended[1]))
    intrinsic = gae(
        bonus, values[..., 1], next_values[..., 1], *ended, gamma=mixing.intrinsic_gamma, lam=lam, valid=valid
    )
    returns = torch.stack([extrinsic, intrinsic], -1) + values
    return Advantages(extrinsic + intrinsic, returns, _share(intrinsic, extrinsic))


def _share(caused: Tensor, rest: Tensor) -> Tensor:
    a, b = caused.double().var(correction=0), rest.double().var(correction=0)
    return torch.where(a + b > 0, a / (a + b), 0.0)
