"""Training shared by rewards that learn: optimizer, learning rate, minibatches, transition losses, controllability."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from mmrs.errors import InputError
from mmrs.functional.losses import categorical_loss, continuous_loss, forward_loss
from mmrs.nets.cuda_graphs import set_learning_rate, to_device
from mmrs.nets.normalization import ControllabilityNorm
from mmrs.rewards.base import IntrinsicReward
from mmrs.rollout import Rollout
from mmrs.spaces import ActionSpec

INPUT_CLIP = 20.0
"""Largest absolute value of a standardized input; a pixel that is lit in one state of 400 is not clipped."""
BLOCK_STEPS = 16
"""Consecutive steps that stay together in a minibatch, so that a state is encoded once for both its transitions."""
MAX_ATTRIBUTED_VALUES = 2**22
"""Feature changes that one update of controllability uses; with images that is a sample of the transitions."""
MIN_ATTRIBUTED_STEPS = 64
"""Transitions that one update of controllability uses at least, if the rollout has as many."""


def make_adam(
    parameters: Iterable[nn.Parameter], learning_rate: float, total_updates: int | None = None
) -> torch.optim.Adam:
    """Adam with one fused call per step, on the CPU too, where Python takes most of the time for small networks."""
    if not learning_rate > 0:
        raise InputError(f"learning rate {learning_rate}: expected a positive number.")
    if total_updates is not None and total_updates < 1:
        raise InputError(
            f"total_updates is {total_updates}: expected at least 1, or None for a constant learning rate."
        )
    return torch.optim.Adam(parameters, learning_rate, fused=True)


def decay_learning_rate(reward: IntrinsicReward, learning_rate: float, total_updates: int | None) -> None:
    """Set the learning rate of this update: linearly to 0 over `total_updates` (Sec. 6.2), or constant for None."""
    assert reward.optimizer is not None, "a reward that learns has an optimizer"
    fraction = 1.0 if total_updates is None else max(0.0, 1.0 - reward.updates / total_updates)
    set_learning_rate(reward.optimizer, learning_rate * fraction)


def minibatches(items: Tensor, batch_size: int, generator: torch.Generator) -> Tensor:
    """Shuffled `items` in full batches ``[M, B]``; the remainder is dropped in this pass.

    All batches have one size, whatever the number of episodes that ended: on a GPU each size needs its own graph.
    Fewer items than `batch_size` are one batch.
    """
    size = min(batch_size, len(items))
    shuffled = items[to_device(torch.randperm(len(items), generator=generator), items.device)]
    return shuffled[: len(items) // size * size].view(-1, size)


def gradient_step(reward: IntrinsicReward, loss: Tensor) -> None:
    """One optimizer step of the reward on a scalar loss."""
    assert reward.optimizer is not None, "a reward that learns has an optimizer"
    reward.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    reward.optimizer.step()


def step_blocks(valid: Tensor, batch_size: int, generator: torch.Generator) -> list[Tensor]:
    """Minibatches of valid steps (index t·N + e), made of shuffled blocks of consecutive steps of one environment."""
    step_index = torch.arange(valid.numel(), device=valid.device).view_as(valid)
    steps = step_index.T[valid.T].cpu()  # environment by environment, in time order
    blocks = steps.split(min(BLOCK_STEPS, batch_size))
    order = torch.randperm(len(blocks), generator=generator).tolist()
    shuffled = torch.cat([blocks[i] for i in order]).to(valid.device)
    return list(shuffled.tensor_split(-(-len(shuffled) // batch_size)))


def update_running_mean(mean: Tensor, value: Tensor, momentum: float) -> None:
    """Update an exponential moving average of positive values in place; the first value replaces the initial 0."""
    mean.copy_(torch.where(mean > 0, momentum * mean + (1 - momentum) * value, value))


class TransitionBatch:
    """A minibatch of transitions; each distinct state is embedded once."""

    def __init__(self, rollout: Rollout, steps: Tensor, embed: Callable[[Tensor], Tensor], spec: ActionSpec) -> None:
        before, after = rollout.state_index.flatten()[steps], rollout.next_state_index.flatten()[steps]
        states, row = torch.cat([before, after]).unique(return_inverse=True)
        self.embedding, self.next_embedding = embed(rollout.states[states])[row].chunk(2)
        self.actions, self.spec = rollout.actions.flatten(0, 1)[steps], spec
        self.encoded = spec.encode(self.actions)

    def inverse_loss(self, inverse: nn.Module) -> Tensor:
        """Mean loss of predicting the action from the two embeddings, second part of Eq. (21)."""
        prediction = inverse(torch.cat([self.embedding, self.next_embedding], 1))
        if self.spec.nvec:
            return categorical_loss(prediction, self.spec.indices(self.actions), self.spec.nvec).mean()
        return continuous_loss(prediction, self.encoded).mean()

    def forward_loss(self, forward_model: nn.Module) -> Tensor:
        """Mean loss of predicting the next embedding, first part of Eq. (21)."""
        prediction = forward_model(torch.cat([self.embedding, self.encoded], 1))
        return forward_loss(prediction, self.next_embedding).mean()


@torch.no_grad()
def learn_controllability(
    norm: ControllabilityNorm, rollout: Rollout, actions: ActionSpec, assign: Callable[[Tensor], Tensor]
) -> None:
    """Update how well state and action explain the changes of each feature.

    Args:
        norm: norm to update.
        rollout: transitions to learn from.
        actions: spec of its actions.
        assign: maps observations ``[B, *obs]`` to state indices ``[B]``.
    """
    steps = rollout.valid.flatten().nonzero().squeeze(1)
    limit = max(MAX_ATTRIBUTED_VALUES // norm.spec.size, MIN_ATTRIBUTED_STEPS)
    steps = steps[:: -(-len(steps) // limit)]
    before, after = (
        rollout.states[index.flatten()[steps]] for index in (rollout.state_index, rollout.next_state_index)
    )
    action = actions.joint_index(rollout.actions.flatten(0, 1)[steps])
    norm.update_controllability(before, after, assign(before) * (action.max() + 1) + action)
