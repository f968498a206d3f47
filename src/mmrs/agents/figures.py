"""What a row of the record tells of rewards and values, asked of the GPU in few questions: each waits for its work."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.rewards.base import Terms


def reward_figures(terms: Terms) -> dict[str, float]:
    """Mean, spread and share of the whole (by size) of each part of the reward, ``[T, N]`` each."""
    values = torch.stack([term.double() for term in terms.values()]).flatten(1)
    figures = torch.stack([values.mean(1), values.std(1, correction=0), values.abs().mean(1)]).tolist()
    whole = sum(figures[2])
    row: dict[str, float] = {}
    for name, mean, spread, size in zip(terms, *figures, strict=True):
        share = size / whole if whole else 0.0
        row |= {f"reward/{name}": mean, f"reward/{name}_std": spread, f"reward/{name}_share": share}
    return row


def learning_figures(returns: Tensor, values: Tensor, bonus_share: Tensor) -> dict[str, float]:
    """How much of the returns' variance each value head explains, and the bonus' share of that of the advantages.

    Returns and values are ``[T, N, heads]``; the second head is that of the bonus.
    """
    error, spread = (x.double().flatten(0, 1).var(0, correction=0) for x in (returns - values, returns))
    explained = torch.where(spread > 0, 1.0 - error / spread, 0.0)
    figures = torch.cat([explained, bonus_share.view(1)]).tolist()
    names = ("explained_variance", "explained_variance_intrinsic")[: len(explained)]
    return dict(zip((*names, "bonus_advantage_share"), figures, strict=True))
