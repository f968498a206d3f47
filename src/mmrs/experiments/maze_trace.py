"""Where each method walked in one maze: what the interactive page and the sample figures are drawn from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class MethodTrace:
    """The walk of one method, from its first state until every cell was seen or the step cap struck."""

    method: str
    """Name of the method, as on the command line: `vanilla`, `jfi`, ..."""
    states: tuple[int, ...]
    """Visited states in order, s_0 included; state = row * size + column. A wall bump repeats the state."""
    resets: tuple[int, ...]
    """Indices into `states` at which an episode starts (the first is 0); no step leads into such a state."""
    steps: int
    """Environment steps walked: `len(states) - len(resets)`."""
    steps_to_coverage: int | None
    """Steps until the last unseen cell was entered, or None where the walk ended before."""


@dataclass(frozen=True)
class MazeTrace:
    """One maze and the walks of several methods through it."""

    size: int
    """M: the maze has M x M cells."""
    kind: str
    """`perfect` or `plus`."""
    seed: int
    """Seed of the maze and of the agents."""
    walls: tuple[tuple[bool, bool, bool, bool], ...]
    """For each state, whether a wall stands to the north, south, east and west."""
    portals: tuple[tuple[int, int], ...]
    """Pairs of states joined by a portal; stepping on one puts the agent on the other."""
    start: int
    """State in which every episode starts: 0, top left."""
    goal: int
    """Goal state, bottom right; an ordinary cell here (coverage protocol)."""
    lambda_g: float
    """Weight of the intrinsic reward."""
    gamma_g: float
    """Discount inside G = gamma_g J(t+1) - J(t)."""
    runs: tuple[MethodTrace, ...]
    """One walk for each method asked for, in that order."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and strings, ready for JSON."""
        return asdict(self)
