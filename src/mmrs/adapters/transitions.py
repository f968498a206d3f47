"""Turning single steps, as replay buffers and step-by-step hosts have them, into rollouts."""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from mmrs.rewards import IntrinsicReward
from mmrs.rollout import Array, Rollout


def transitions(obs: Array, next_obs: Array, actions: Array, terminated: Array, truncated: Array) -> Rollout:
    """B transitions of B environments as a rollout of one step; `next_obs` holds the true successors."""
    rows = torch.stack([torch.as_tensor(obs), torch.as_tensor(next_obs)])
    done = torch.as_tensor(terminated) | torch.as_tensor(truncated)
    return Rollout(
        obs=rows,
        actions=actions[None],
        terminated=terminated[None],
        truncated=truncated[None],
        final_obs=rows[1][done],
    )


class StepBuffer:
    """Collects rollouts of one step each until they are taken as one long rollout."""

    def __init__(self) -> None:
        self._steps: list[Rollout] = []
        self._last: Rollout | None = None

    def __len__(self) -> int:
        """Steps held, summed over environments."""
        return sum(step.num_envs for step in self._steps)

    def is_continuation(self, obs: Array) -> bool:
        """Whether `obs` is the state that the last step led to, in every environment whose episode continues."""
        if self._last is None:
            return True
        return not bool(_breaks(self._last, torch.as_tensor(obs)).any())

    def add(self, step: Rollout) -> None:
        """Add one step of N environments."""
        self._steps.append(step)
        self._last = step

    def take(self) -> Rollout:
        """The steps so far as one rollout; empties the buffer."""
        steps, self._steps = self._steps, []
        # If the next step starts in another state, the environment was reset from outside: no transition leads there.
        broken = [_breaks(step, after.obs[0]) for step, after in itertools.pairwise(steps)]
        broken.append(torch.zeros_like(steps[-1].done[0]))
        done = [step.done[0] | cut for step, cut in zip(steps, broken, strict=True)]
        return Rollout(
            obs=torch.cat([*(step.obs[:1] for step in steps), steps[-1].obs[1:]]),
            actions=torch.cat([step.actions for step in steps]),
            terminated=torch.cat([step.terminated for step in steps]),
            truncated=torch.cat([step.truncated | cut for step, cut in zip(steps, broken, strict=True)]),
            final_obs=torch.cat([_successors(step)[ended] for step, ended in zip(steps, done, strict=True)]),
            valid=torch.cat([step.valid for step in steps]),
        )

    def state_dict(self) -> dict[str, Any]:
        """The steps in the buffer, and the last one added."""
        last = None if self._last is None else _tensors(self._last)
        return {"steps": [_tensors(step) for step in self._steps], "last": last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self._steps = [Rollout(**step) for step in state["steps"]]
        self._last = None if state["last"] is None else Rollout(**state["last"])


def _tensors(step: Rollout) -> dict[str, Tensor]:
    return {field.name: getattr(step, field.name) for field in fields(step)}


def _successors(step: Rollout) -> Tensor:
    """``[N, *obs]``: the true successors of a step."""
    return step.states[step.next_state_index[0]]


def _breaks(step: Rollout, obs: Tensor) -> Tensor:
    """``[N]`` bool: episodes that continue after the step, but not in `obs`."""
    same = (_successors(step) == obs).reshape(step.num_envs, -1).all(1)
    return step.valid[0] & ~step.done[0] & ~same


def has_memory(reward: IntrinsicReward) -> bool:
    """Whether the reward carries anything from step to step."""
    leaves = tree_leaves(reward.initial_memory(1, torch.device("meta")))
    return any(isinstance(leaf, Tensor) for leaf in leaves)
