"""What rewards that train a network share: the optimiser, its decaying rate, and minibatches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from mmrs.errors import InputError
from mmrs.nets.capture import set_learning_rate
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


def minibatches(items: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Shuffled parts of `items`, at most `batch_size` each and as even as can be: no last batch of one sample."""
    shuffled = items[torch.randperm(len(items), generator=generator).to(items.device)]
    yield from shuffled.tensor_split(-(-len(items) // batch_size))


def gradient_step(reward: IntrinsicReward, loss: Tensor) -> None:
    """One step of the reward's optimiser down the gradient of a scalar loss."""
    assert reward.optimizer is not None, "a reward that learns has an optimiser"
    reward.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    reward.optimizer.step()
