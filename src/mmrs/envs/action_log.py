"""The actions since the oldest seeded reset that still counts, one row a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmrs.envs.base import Values

FIRST_ROWS = 1024


class ActionLog:
    """The last rows of actions ``[steps, N, *act]`` in one buffer that forgets what no environment needs any more."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._rows = np.empty((FIRST_ROWS, *shape), dtype)
        self._first = 0
        """Step of the first row."""
        self.steps = 0

    def append(self, actions: Values, needed_from: Values) -> None:
        """Add the actions of one step; rows before the smallest of `needed_from` may go."""
        if self.steps - self._first == len(self._rows):
            kept = self.since(int(needed_from.min()))
            # Room is doubled only when more than half is still needed: the buffer stays within twice the longest log.
            capacity = len(self._rows) * (2 if 2 * len(kept) > len(self._rows) else 1)
            rows = np.empty((capacity, *self._rows.shape[1:]), self._rows.dtype)
            rows[: len(kept)] = kept
            self._rows, self._first = rows, self.steps - len(kept)
        self._rows[self.steps - self._first] = actions
        self.steps += 1

    def since(self, step: int) -> Values:
        """Rows from `step` on; a view."""
        return self._rows[step - self._first : self.steps - self._first]

    def load(self, of_each: Sequence[Values], steps: int) -> Values:
        """Become the log that ends at `steps` with these last actions ``[steps_i, *act]`` of each environment.

        Returns the rows. Where they begin before an environment's own actions, they hold those of the one with the
        longest history: it may do there whatever is allowed, since its seeded reset comes after.
        """
        rows = np.repeat(max(of_each, key=len)[:, None], len(of_each), 1)
        for i, actions in enumerate(of_each):
            rows[len(rows) - len(actions) :, i] = actions
        self._rows = np.empty((max(FIRST_ROWS, len(rows)), *self._rows.shape[1:]), self._rows.dtype)
        self._rows[: len(rows)] = rows
        self._first, self.steps = steps - len(rows), steps
        return self.since(self._first)
