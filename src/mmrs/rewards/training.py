"""What rewards that train a network share: the optimiser, its decaying rate, and minibatches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from mmrs.errors import InputError
from mmrs.functional.losses import choice_loss, continuous_loss, forward_loss
from mmrs.nets.cuda_graphs import set_learning_rate, to_device
from mmrs.nets.normalization import ControlNorm
from mmrs.rewards.base import IntrinsicReward
from mmrs.rollout import Rollout
from mmrs.spaces import ActionSpec


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


BLOCK = 16
"""Consecutive steps that stay together in a minibatch, so that a state is encoded once for both its transitions."""


def step_blocks(valid: Tensor, batch_size: int, generator: torch.Generator) -> list[Tensor]:
    """Minibatches of valid steps (as t·N + e): blocks of consecutive steps of one environment, shuffled."""
    number = torch.arange(valid.numel(), device=valid.device).view_as(valid)
    steps = number.T[valid.T].cpu()  # environment by environment, in time
    blocks = steps.split(min(BLOCK, batch_size))
    order = torch.randperm(len(blocks), generator=generator).tolist()
    shuffled = torch.cat([blocks[i] for i in order]).to(valid.device)
    return list(shuffled.tensor_split(-(-len(shuffled) // batch_size)))


class TransitionBatch:
    """A minibatch of transitions, its states embedded once each."""

    def __init__(self, rollout: Rollout, steps: Tensor, embed: Callable[[Tensor], Tensor], spec: ActionSpec) -> None:
        before, after = rollout.before.flatten()[steps], rollout.after.flatten()[steps]
        states, place = torch.cat([before, after]).unique(return_inverse=True)
        self.old, self.new = embed(rollout.states[states])[place].chunk(2)
        self.actions, self.spec = rollout.actions.flatten(0, 1)[steps], spec
        self.encoded = spec.encode(self.actions)

    def inverse_loss(self, inverse: nn.Module) -> Tensor:
        """Mean loss of telling the action from the two embeddings, second part of Eq. (21)."""
        guess = inverse(torch.cat([self.old, self.new], 1))
        if self.spec.choices:
            return choice_loss(guess, self.spec.numbers(self.actions), self.spec.choices).mean()
        return continuous_loss(guess, self.encoded).mean()

    def forward_loss(self, forward_model: nn.Module) -> Tensor:
        """Mean loss of predicting the new embedding, first part of Eq. (21)."""
        return forward_loss(forward_model(torch.cat([self.old, self.encoded], 1)), self.new).mean()


CLIP = 20.0
"""Bound of standardised inputs: a pixel that one state in 400 lights is not cut."""
MOST_ATTRIBUTED = 2**22
"""Numbers of a rollout whose changes are told apart an update; of images that is a sample of the transitions."""
LEAST_TRANSITIONS = 64


@torch.no_grad()
def learn_control(norm: ControlNorm, rollout: Rollout, actions: ActionSpec, place: Callable[[Tensor], Tensor]) -> None:
    """Tell the changes that follow from place and action from those that do not.

    Args:
        norm: learns.
        rollout: what the agents saw.
        actions: how to read its actions.
        place: numbers ``[B]`` of the places that observations ``[B, *obs]`` show.
    """
    steps = rollout.valid.flatten().nonzero().squeeze(1)
    most = max(MOST_ATTRIBUTED // norm.spec.size, LEAST_TRANSITIONS)
    steps = steps[:: -(-len(steps) // most)]
    before, after = (rollout.states[index.flatten()[steps]] for index in (rollout.before, rollout.after))
    action = actions.kinds(rollout.actions.flatten(0, 1)[steps])
    norm.attribute(before, after, place(before) * (action.max() + 1) + action)
