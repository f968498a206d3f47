"""What a row of the record tells of rewards and values, asked of a GPU in one question: an answer waits for work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmrs.rewards.base import Terms

Figures = dict[str, Tensor]
"""Numbers by name, each a tensor of one number."""


def reward_figures(terms: Terms) -> Figures:
    """Mean, spread and share of the whole (by size) of each part of the reward, ``[T, N]`` each."""
    values = torch.stack([term.double() for term in terms.values()]).flatten(1)
    sizes = values.abs().mean(1)
    shares = torch.where(sizes.sum() > 0, sizes / sizes.sum(), sizes)
    row: Figures = {}
    for name, mean, spread, share in zip(terms, values.mean(1), values.std(1, correction=0), shares, strict=True):
        row |= {f"reward/{name}": mean, f"reward/{name}_std": spread, f"reward/{name}_share": share}
    return row


def learning_figures(returns: Tensor, values: Tensor, bonus_share: Tensor) -> Figures:
    """How much of the returns' variance each value head explains, and the bonus' share of that of the advantages.

    Returns and values are ``[T, N, heads]``; the second head is that of the bonus.
    """
    error, spread = (x.double().flatten(0, 1).var(0, correction=0) for x in (returns - values, returns))
    explained = torch.where(spread > 0, 1.0 - error / spread, 0.0)
    names = ("explained_variance", "explained_variance_intrinsic")[: len(explained)]
    return {**dict(zip(names, explained, strict=True)), "bonus_advantage_share": bonus_share}


def as_numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its tensors as numbers; waits for the work that gives them, once for each device and type."""
    numbers = {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
    alike: dict[object, list[str]] = {}
    for name, value in row.items():
        if isinstance(value, Tensor):
            alike.setdefault((value.device, value.dtype), []).append(name)
    for names in alike.values():
        numbers |= zip(names, torch.stack([row[name].reshape(()) for name in names]).tolist(), strict=True)
    return numbers
