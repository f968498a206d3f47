"""Metrics of rewards and values, moved to the host in few transfers: each transfer waits for the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mmrs.rewards.base import Terms

Metrics = dict[str, Tensor]
"""Scalar tensors by name."""


def reward_metrics(terms: Terms) -> Metrics:
    """Mean, standard deviation and share (of the mean absolute values) of each term of the reward, ``[T, N]`` each."""
    values = torch.stack([term.double() for term in terms.values()]).flatten(1)
    sizes = values.abs().mean(1)
    shares = torch.where(sizes.sum() > 0, sizes / sizes.sum(), sizes)
    row: Metrics = {}
    for name, mean, std, share in zip(terms, values.mean(1), values.std(1, correction=0), shares, strict=True):
        row |= {f"reward/{name}": mean, f"reward/{name}_std": std, f"reward/{name}_share": share}
    return row


def learning_metrics(returns: Tensor, values: Tensor, bonus_share: Tensor) -> Metrics:
    """Explained variance of each value head, and the bonus' share of the advantages' variance.

    Returns and values are ``[T, N, heads]``; the second head is that of the bonus.
    """
    error, variance = (x.double().flatten(0, 1).var(0, correction=0) for x in (returns - values, returns))
    explained = torch.where(variance > 0, 1.0 - error / variance, 0.0)
    names = ("explained_variance", "explained_variance_intrinsic")[: len(explained)]
    return {**dict(zip(names, explained, strict=True)), "bonus_advantage_share": bonus_share}


def to_floats(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its tensors as Python scalars; one transfer per device and dtype."""
    floats = {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
    groups: dict[object, list[str]] = {}
    for name, value in row.items():
        if isinstance(value, Tensor):
            groups.setdefault((value.device, value.dtype), []).append(name)
    for names in groups.values():
        floats |= zip(names, torch.stack([row[name].reshape(()) for name in names]).tolist(), strict=True)
    return floats
