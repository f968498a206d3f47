"""The memory of a reward, kept per episode, for hosts whose environments come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from mmrs.errors import InputError
from mmrs.rewards import IntrinsicReward, Memory

FORGET_AFTER = 16
"""Batches after which an unfinished episode without new steps is dropped: its sampler was lost."""


class EpisodeMemory:
    """The rows of a reward's memory by episode, and the parts that all environments share, such as a bonus' scale."""

    def __init__(self, reward: IntrinsicReward) -> None:
        self.reward = reward
        self.shared: Memory | None = None
        self.rows: dict[str, Memory] = {}
        self.waiting: dict[str, int] = {}
        """Batches since each episode last had steps."""
        one, two = (reward.initial_memory(n, torch.device("meta")) for n in (1, 2))
        self._is_row = tree_map(_has_row_per_env, one, two)

    def collect(self, episodes: Sequence[str | None], device: torch.device) -> Memory:
        """The memory to compute with. Column i is that of the i-th episode; None stands for one that starts now."""
        initial = self.reward.initial_memory(1, device)
        shared = initial if self.shared is None else self.shared
        rows = [initial if name is None else self.rows.get(name, initial) for name in episodes]
        merged: Memory = tree_map(_merge_rows, self._is_row, shared, *rows)
        return merged

    def store(self, memory: Memory, episodes: Sequence[str | None]) -> None:
        """Keep the shared parts, and the rows of the episodes that continue; None stands for one that has ended."""
        self.shared = memory
        for column, name in enumerate(episodes):
            if name is not None:
                self.rows[name] = _row(self._is_row, memory, column)
                self.waiting[name] = 0

    def end_batch(self, ended: Sequence[str]) -> None:
        """Drop episodes that ended, and those without new steps for long."""
        self.waiting = {name: age + 1 for name, age in self.waiting.items()}
        lost = [name for name, age in self.waiting.items() if age > FORGET_AFTER]
        for name in {*ended, *lost}:
            self.rows.pop(name, None)
            self.waiting.pop(name, None)

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue."""
        shared = None if self.shared is None else _row(self._is_row, self.shared, 0)
        return {"shared": shared, "rows": self.rows, "waiting": self.waiting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.shared, self.rows, self.waiting = state["shared"], dict(state["rows"]), dict(state["waiting"])


def _has_row_per_env(one: Tensor, two: Tensor) -> bool:
    """Whether a part of the memory has one row per environment, from its shapes for one and two environments."""
    if one.shape == two.shape:
        return False
    if one.shape[1:] == two.shape[1:] and (one.shape[0], two.shape[0]) == (1, 2):
        return True
    raise InputError(
        f"this reward's memory has shapes {tuple(one.shape)} and {tuple(two.shape)} for one and two environments; "
        "expected the environments first, so that it can be kept per episode."
    )


def _merge_rows(is_row: bool, shared: Tensor, *rows: Tensor) -> Tensor:
    return torch.cat([row.to(shared.device) for row in rows]) if is_row else shared


def _row(is_row: Any, memory: Any, column: int) -> Any:
    """One environment's part of a memory; shared parts are kept whole."""
    return tree_map(lambda own, values: values[column : column + 1].clone() if own else values, is_row, memory)
