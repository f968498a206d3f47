"""Learning from a rollout what of an observation the agent controls."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mmrs.nets.norm import ControlNorm
from mmrs.rollout import Rollout
from mmrs.spaces import ActionSpec

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
