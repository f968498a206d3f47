"""Log of the actions since the oldest seeded reset that replay still needs, one row per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmrs.envs.base import Values

FIRST_ROWS = 1024


class ActionLog:
    """The last rows of actions ``[steps, N, *act]`` in one buffer; rows that no environment needs are dropped."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._rows = np.empty((FIRST_ROWS, *shape), dtype)
        self._first = 0
        """Step number of the first row."""
        self.steps = 0

    def append(self, actions: Values, needed_from: Values) -> None:
        """Add the actions of one step; rows before the smallest of `needed_from` may be dropped."""
        if self.steps - self._first == len(self._rows):
            kept = self.since(int(needed_from.min()))
            # The buffer doubles only if more than half is still needed, so it stays within twice the longest log.
            capacity = len(self._rows) * (2 if 2 * len(kept) > len(self._rows) else 1)
            rows = np.empty((capacity, *self._rows.shape[1:]), self._rows.dtype)
            rows[: len(kept)] = kept
            self._rows, self._first = rows, self.steps - len(kept)
        self._rows[self.steps - self._first] = actions
        self.steps += 1

    def since(self, step: int) -> Values:
        """Rows from `step` on, as a view."""
        return self._rows[step - self._first : self.steps - self._first]

    def load(self, of_each: Sequence[Values], steps: int) -> Values:
        """Set the log to end at `steps` with these last actions ``[steps_i, *act]`` of each environment.

        Returns the rows. Rows before an environment's own actions hold those of the environment with the longest
        history: any valid action will do there, since the seeded reset comes after.
        """
        rows = np.repeat(max(of_each, key=len)[:, None], len(of_each), 1)
        for i, actions in enumerate(of_each):
            rows[len(rows) - len(actions) :, i] = actions
        self._rows = np.empty((max(FIRST_ROWS, len(rows)), *self._rows.shape[1:]), self._rows.dtype)
        self._rows[: len(rows)] = rows
        self._first, self.steps = steps - len(rows), steps
        return self.since(self._first)
