"""What the maze experiment found: one row for each kind, size and method."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class MazeCell:
    """Steps to coverage of one method on the mazes of one kind and size."""

    kind: str
    """`perfect` or `plus`."""
    size: int
    """M: the mazes have M x M cells."""
    method: str
    """`vanilla`, `jfi`, ..."""
    mazes: int
    """Number of mazes, one run each."""
    mean: float
    """Mean steps until every cell was seen; capped runs enter at the cap, so it is then a lower bound."""
    mean_low: float
    """Lower end of the 95 % percentile-bootstrap interval of the mean."""
    mean_high: float
    """Upper end of it."""
    median: float
    """Median steps, capped runs at the cap."""
    censored: int
    """Runs that hit the step cap before every cell was seen."""
    covered: float
    """Mean fraction of cells seen when the run ended."""
    cap: int
    """Step cap of a run."""
    ratio: float | None
    """Mean of vanilla / mean of this method on the same mazes; above 1 is faster. None for vanilla."""
    ratio_low: float | None
    """Lower end of its paired 95 % bootstrap interval."""
    ratio_high: float | None
    """Upper end of it."""
    wins: float | None
    """Fraction of mazes on which the method needed fewer steps than vanilla."""
    verdict: str
    """`baseline` (vanilla itself), `faster` or `slower` (interval clear of 1), `undecided`."""
    reason: str
    """Why the method loses, where it does; else empty."""
    steps: tuple[int, ...] = field(repr=False)
    """Steps of each run, in the order of the seeds; the cap where the run was censored."""


@dataclass(frozen=True)
class MazeResult:
    """All cells of one `mmrs maze` run."""

    protocol: str
    """`coverage` (A: the goal is an ordinary cell) or `literal` (B: the goal pays 1 and ends the episode)."""
    config: dict[str, Any]
    """Every field of the configuration that was run."""
    cells: tuple[MazeCell, ...]
    """By kind, then size, then method, each in the order asked for."""
    unreachable: dict[str, float]
    """Fraction of first draws with a cell no walk can reach (redrawn), by `kind size`, e.g. `plus 10`."""
    seconds: float
    """Wall-clock time of the run, compilation included."""
    env_steps: int
    """Environment steps walked, all cells together."""

    def cell(self, kind: str, size: int, method: str) -> MazeCell:
        """The row of one kind, size and method."""
        return next(c for c in self.cells if (c.kind, c.size, c.method) == (kind, size, method))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and strings, ready for JSON."""
        return asdict(self)
