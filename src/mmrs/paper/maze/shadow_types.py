"""What the maze page and figures read: the shape of a trace and of a benchmark result, wherever they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mmrs.paper.maze.options import WalkOptions


class WalkData(Protocol):
    """The walk of one method."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def states(self) -> Sequence[int]:
        """Visited states in order, the first included; state = row * size + column."""

    @property
    def resets(self) -> Sequence[int]:
        """Indices into `states` at which an episode starts."""

    @property
    def steps(self) -> int:
        """Environment steps walked."""

    @property
    def steps_to_coverage(self) -> int | None:
        """Steps until every cell was seen; None if some never was."""

    @property
    def options(self) -> WalkOptions:
        """Everything the walk was made with."""


class TraceData(Protocol):
    """A maze and the walks through it."""

    @property
    def size(self) -> int:
        """Cells along a side."""

    @property
    def kind(self) -> str:
        """`perfect` or `plus`."""

    @property
    def seed(self) -> int:
        """Seed of the maze and of the agents."""

    @property
    def walls(self) -> Sequence[Sequence[bool]]:
        """For each state, whether a wall stands to the north, south, east and west."""

    @property
    def portals(self) -> Sequence[tuple[int, int]]:
        """Pairs of joined states."""

    @property
    def start(self) -> int:
        """Where every episode starts."""

    @property
    def goal(self) -> int:
        """The goal."""

    @property
    def runs(self) -> Sequence[WalkData]:
        """One walk a method."""


class CellData(Protocol):
    """One row of the benchmark; the fields are those of `MazeCell`."""

    @property
    def kind(self) -> str:
        """`perfect` or `plus`."""

    @property
    def size(self) -> int:
        """Cells along a side."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def mazes(self) -> int:
        """Number of mazes."""

    @property
    def mean(self) -> float:
        """Mean steps, capped runs at the cap."""

    @property
    def mean_low(self) -> float:
        """Lower end of the interval of the mean."""

    @property
    def mean_high(self) -> float:
        """Upper end of it."""

    @property
    def median(self) -> float:
        """Median steps."""

    @property
    def censored(self) -> int:
        """Runs that hit the cap."""

    @property
    def ratio(self) -> float | None:
        """Mean of vanilla over mean of this method; None for vanilla."""

    @property
    def ratio_low(self) -> float | None:
        """Lower end of its interval."""

    @property
    def ratio_high(self) -> float | None:
        """Upper end of it."""

    @property
    def wins(self) -> float | None:
        """Fraction of mazes on which the method was faster than vanilla."""

    @property
    def verdict(self) -> str:
        """`baseline`, `faster`, `slower` or `undecided`."""

    @property
    def reason(self) -> str:
        """Why the method loses, where it does."""


class ResultData(Protocol):
    """A benchmark run."""

    @property
    def protocol(self) -> str:
        """`coverage` or `literal`."""

    @property
    def config(self) -> Mapping[str, Any]:
        """What was run."""

    @property
    def cells(self) -> Sequence[CellData]:
        """All rows."""


LABELS = {
    "vanilla": "Q-learning",
    "jfi": "Q-learning + JFI",
    "entropy": "Q-learning + entropy difference",
    "coverage": "Q-learning + coverage difference",
    "count_bonus": "Q-learning + count bonus",
    "count_penalty": "Q-learning + count penalty",
    "rnd_decay": "Q-learning + RND-like decay",
    "random_walk": "random walk",
}
"""How people call the methods."""


PORTAL_LETTERS = "ABCDEFHIJKLMNOPQRTUVWXYZ"
"""G and S mark goal and start."""


def portal_letter(index: int) -> str:
    """What both ends of a portal are marked with: A, B, ..., Z, then A2, B2, ..."""
    lap, place = divmod(index, len(PORTAL_LETTERS))
    return PORTAL_LETTERS[place] + (str(lap + 1) if lap else "")


def label(method: str) -> str:
    """The name of a method as a reader wants it."""
    return LABELS.get(method, method.replace("_", " "))
