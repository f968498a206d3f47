"""The memory of a reward, kept episode by episode, for hosts whose environments come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mmrs.errors import InputError
from mmrs.rewards import IntrinsicReward, Memory

FORGET_AFTER = 16
"""Batches after which an episode that has not come back is forgotten: its sampler was lost."""


class EpisodeMemory:
    """Rows of a reward's memory by episode, and once what all environments share (the scale of a bonus, say)."""

    def __init__(self, reward: IntrinsicReward) -> None:
        self.reward = reward
        self.shared: Memory | None = None
        self.rows: dict[str, Memory] = {}
        self.waiting: dict[str, int] = {}
        """Batches since each episode was last seen."""
        one, two = (reward.initial_memory(n, torch.device("meta")) for n in (1, 2))
        self._is_row = _pairwise(_differs_in_rows, one, two)

    def collect(self, episodes: Sequence[str | None], device: torch.device) -> Memory:
        """The memory to compute with: column by column that of the episode named; None: one that starts now."""
        fresh = self.reward.initial_memory(1, device)
        shared = fresh if self.shared is None else self.shared
        rows = [fresh if name is None else self.rows.get(name, fresh) for name in episodes]
        merged: Memory = _merge(self._is_row, shared, rows)
        return merged

    def store(self, memory: Memory, episodes: Sequence[str | None]) -> None:
        """Keep what came back: the shared part, and the rows of episodes that go on (None: the column's ended)."""
        self.shared = memory
        for column, name in enumerate(episodes):
            if name is not None:
                self.rows[name] = _row(self._is_row, memory, column)
                self.waiting[name] = 0

    def end_batch(self, ended: Sequence[str]) -> None:
        """Forget episodes that ended, and those that nobody has sent for long."""
        self.waiting = {name: age + 1 for name, age in self.waiting.items()}
        lost = [name for name, age in self.waiting.items() if age > FORGET_AFTER]
        for name in {*ended, *lost}:
            self.rows.pop(name, None)
            self.waiting.pop(name, None)

    def state_dict(self) -> dict[str, Any]:
        """All that is remembered."""
        shared = None if self.shared is None else _row(self._is_row, self.shared, 0)
        return {"shared": shared, "rows": self.rows, "waiting": self.waiting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self.shared, self.rows, self.waiting = state["shared"], dict(state["rows"]), dict(state["waiting"])


def _pairwise(f: Callable[[Tensor, Tensor], Any], left: Any, right: Any) -> Any:
    if isinstance(left, dict):
        return {name: _pairwise(f, left[name], right[name]) for name in left}
    return f(left, right)


def _differs_in_rows(one: Tensor, two: Tensor) -> bool:
    if one.shape == two.shape:
        return False
    if one.shape[1:] == two.shape[1:] and (one.shape[0], two.shape[0]) == (1, 2):
        return True
    raise InputError(
        f"this reward's memory has shapes {tuple(one.shape)} and {tuple(two.shape)} for one and two environments; "
        "expected the environments first, so that it can be kept episode by episode."
    )


def _merge(is_row: Any, shared: Any, rows: Sequence[Any]) -> Any:
    if isinstance(is_row, dict):
        return {name: _merge(is_row[name], shared[name], [row[name] for row in rows]) for name in is_row}
    return torch.cat([row.to(shared.device) for row in rows]) if is_row else shared


def _row(is_row: Any, memory: Any, column: int) -> Any:
    """One environment's memory; of what is shared, the whole."""
    if isinstance(is_row, dict):
        return {name: _row(is_row[name], memory[name], column) for name in is_row}
    return memory[column : column + 1].clone() if is_row else memory
