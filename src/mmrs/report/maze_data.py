"""What the maze page and figures read: the shape of a trace and of a benchmark result, wherever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class WalkData(Protocol):
    """The walk of one method."""

    @property
    def method(self) -> str:
        """Name of the method."""
    @property
    def states(self) -> Sequence[int]:
        """Visited states in order, the first included."""
    @property
    def resets(self) -> Sequence[int]:
        """Indices into `states` at which an episode starts."""
    @property
    def steps(self) -> int:
        """Environment steps walked."""
    @property
    def steps_to_coverage(self) -> int | None:
        """Steps until every cell was seen, None if that never happened."""
