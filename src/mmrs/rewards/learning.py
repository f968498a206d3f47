"""What rewards that train a network share: the optimiser, its decaying rate, and minibatches."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from mmrs.errors import InputError
from mmrs.nets.capture import set_learning_rate
from mmrs.nets.transfer import to_device
from mmrs.rewards.base import IntrinsicReward


def adam(
    parameters: Iterable[nn.Parameter], learning_rate: float, total_updates: int | None = None
) -> torch.optim.Adam:
    """Adam in one fused call a step, on the CPU too: small networks wait for Python more than for arithmetic."""
    if not learning_rate > 0:
        raise InputError(f"learning rate {learning_rate}: expected a positive number.")
    if total_updates is not None and total_updates < 1:
        raise InputError(
            f"total_updates is {total_updates}: expected at least 1, or None for a constant learning rate."
        )
    return torch.optim.Adam(parameters, learning_rate, fused=True)


def decay_learning_rate(reward: IntrinsicReward, learning_rate: float, total_updates: int | None) -> None:
    """Set the rate of this update: falling linearly to 0 over `total_updates`, constant without a total (Sec. 6.2)."""
    assert reward.optimizer is not None, "a reward that learns has an optimiser"
    left = 1.0 if total_updates is None else max(0.0, 1.0 - reward.updates / total_updates)
    set_learning_rate(reward.optimizer, learning_rate * left)


def minibatches(items: Tensor, batch_size: int, generator: torch.Generator) -> Tensor:
    """Shuffled `items` in full batches ``[M, B]``; what is left over, by chance, waits for another pass.

    All of the same size, whatever the number of episodes that ended: on a GPU each size would be a graph of its own.
    Items too few for one batch are one.
    """
    size = min(batch_size, len(items))
    shuffled = items[to_device(torch.randperm(len(items), generator=generator), items.device)]
    return shuffled[: len(items) // size * size].view(-1, size)


def gradient_step(reward: IntrinsicReward, loss: Tensor) -> None:
    """One step of the reward's optimiser down the gradient of a scalar loss."""
    assert reward.optimizer is not None, "a reward that learns has an optimiser"
    reward.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    reward.optimizer.step()
