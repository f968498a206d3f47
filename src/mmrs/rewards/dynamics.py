"""Learning from transitions: inverse and forward losses of an embedding, on blocks of consecutive steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mmrs.functional.losses import choice_loss, continuous_loss, forward_loss
from mmrs.rollout import Rollout
from mmrs.spaces import ActionSpec

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
