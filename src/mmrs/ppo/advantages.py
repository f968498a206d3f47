"""From rewards to what the policy learns from: the bonus is added here, before the advantages, or nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mmrs.functional.returns import gae


@dataclass(frozen=True)
class MixingConfig:
    """How extrinsic and intrinsic reward become one learning signal."""

    mode: Literal["sum", "two_heads"] = "sum"
    """Add the bonus to the reward (Algorithm 1), or learn a value of its own for it and add the advantages."""
    extrinsic_weight: float = 1.0
    """Weight of the environment's reward; 0 trains on the bonus alone."""
    intrinsic_gamma: float = 0.99
    """Discount of the bonus under two heads."""
    intrinsic_episodic: bool = True
    """Whether the bonus' return ends with the episode, under two heads; False lets it run on (Burda et al. 2019)."""


class Advantages(NamedTuple):
    """What an update learns from, and how much of it the bonus caused."""

    advantages: Tensor
    """``[T, N]``"""
    returns: Tensor
    """``[T, N, heads]``"""
    bonus_share: Tensor
    """Share of the advantages' variance that the bonus causes, 0 to 1: 0 says the bonus is not used at all."""


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
    """Advantages and returns of extrinsic `reward` and `bonus`, from tensors alone: a GPU replays it as one graph.

    Values are ``[T, N, heads]``, all else ``[T, N]``; the first three are as in a `Rollout`.
    """
    reward = mixing.extrinsic_weight * reward
    ended = (terminated, truncated)
    none = torch.zeros_like(reward)
    if mixing.mode == "sum":
        caused = gae(bonus, none, none, *ended, gamma=gamma, lam=lam, valid=valid)
        total = gae(reward + bonus, values[..., 0], next_values[..., 0], *ended, gamma=gamma, lam=lam, valid=valid)
        return Advantages(total, (total + values[..., 0]).unsqueeze(-1), _share(caused, total - caused))
    extrinsic = gae(reward, values[..., 0], next_values[..., 0], *ended, gamma=gamma, lam=lam, valid=valid)
    if not mixing.intrinsic_episodic:
        # The bonus' return runs on into the next episode, whose first state is the one after the reset.
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
