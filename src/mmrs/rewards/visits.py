"""Visit counts of indexed states along a rollout, per episode or lifelong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from mmrs.functional.fairness import VisitCurve, visit_curve
from mmrs.rewards.base import Memory
from mmrs.rollout import Rollout
from mmrs.segments import VisitSlots

Scope = Literal["episode", "lifelong"]


@dataclass(frozen=True)
class CountedVisits:
    """The visit slots of a rollout and the statistics of the counts at each."""

    slots: VisitSlots
    curve: VisitCurve

    def jain_index(self, k: int) -> tuple[Tensor, Tensor]:
        """J before and after each step, each ``[T, N]``; a start state counts before the first step."""
        index = self.curve.jain_index(k)
        return VisitSlots.before(index), VisitSlots.after(index)


def initial_counts(num_envs: int, k: int, device: torch.device) -> Memory:
    """Memory without visits: every environment is about to start an episode."""
    return {
        "counts": torch.zeros(num_envs, k, dtype=torch.int64, device=device),
        "starts_episode": torch.ones(num_envs, dtype=torch.bool, device=device),
    }


def count_visits(
    rollout: Rollout, before: Tensor, after: Tensor, memory: Memory, *, scope: Scope, count_start: bool = True
) -> tuple[CountedVisits, Memory]:
    """Add the visits of a rollout to the counts in memory.

    Args:
        rollout: gives the order of visits and the ends of episodes.
        before: ``[T, N]`` index of s_t.
        after: ``[T, N]`` index of the true s_{t+1}.
        memory: from `initial_counts` or the previous call.
        scope: whether counts start at 0 in each episode, or never.
        count_start: whether the start state of an episode is a visit.
    """
    slots = rollout.visit_slots(memory["starts_episode"])
    if not count_start:
        slots = replace(slots, counted=slots.counted & _is_successor(slots.counted))

    episode = slots.episode if scope == "episode" else torch.zeros_like(slots.episode)
    labels = torch.stack([before, after], 1).flatten(0, 1).T.contiguous()  # [N, 2T]
    curve = visit_curve(labels, slots.counted, episode, memory["counts"])
    last = episode[:, -1:]
    counts = torch.where(last == 0, memory["counts"], 0)
    counts = counts.scatter_add(1, labels, (slots.counted & (episode == last)).to(torch.int64))
    return CountedVisits(slots, curve), {"counts": counts, "starts_episode": rollout.next_starts_episode}


def _is_successor(slots: Tensor) -> Tensor:
    return torch.arange(slots.shape[1], device=slots.device) % 2 == 1
