"""Results of the maze experiment: one row per kind, size and method, and traces of single walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mmrs.envs.maze.maze import START, Maze, generate
from mmrs.errors import InputError
from mmrs.paper.maze.options import METHODS, WalkOptions


@dataclass(frozen=True)
class MazeRow:
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
    """Mean steps until every cell was seen. Capped runs enter at the cap: the mean is then a lower bound."""
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
    """The reason why the method loses, where it does; else empty."""
    steps: tuple[int, ...] = field(repr=False)
    """Steps of each run, in the order of the seeds; the cap where the run was censored."""


@dataclass(frozen=True)
class MazeResult:
    """All rows of one `mmrs maze` run."""

    protocol: str
    """`coverage` (A: the goal is an ordinary cell) or `literal` (B: the goal pays 1 and ends the episode)."""
    config: dict[str, Any]
    """Every field of the configuration that was run."""
    rows: tuple[MazeRow, ...]
    """Ordered by kind, then size, then method, each in the order of the configuration."""
    unreachable: dict[str, float]
    """Fraction of first draws with a cell no walk can reach (redrawn), by `kind size`, e.g. `plus 10`."""
    seconds: float
    """Wall-clock time of the run, compilation included."""
    env_steps: int
    """Environment steps walked, over all rows."""

    def row(self, kind: str, size: int, method: str) -> MazeRow:
        """The row of one kind, size and method."""
        return next(r for r in self.rows if (r.kind, r.size, r.method) == (kind, size, method))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and strings, ready for JSON; `maze.json` calls the rows `cells`."""
        return {"cells" if name == "rows" else name: value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class MethodTrace:
    """The walk of one method, from its first state until every cell was seen or the step cap was reached."""

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
    options: WalkOptions
    """All settings of the walk."""


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
    """For each state, whether there is a wall to the north, south, east and west."""
    portals: tuple[tuple[int, int], ...]
    """Pairs of states joined by a portal; stepping on one puts the agent on the other."""
    start: int
    """State in which every episode starts: 0, top left."""
    goal: int
    """Goal state, bottom right; an ordinary cell unless `goal_ends` is set in the walks' options."""
    runs: tuple[MethodTrace, ...]
    """One walk per method, in the order of the call."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and strings, ready for JSON."""
        plain = asdict(self)
        for run in plain["runs"]:
            run["options"] = run["options"]._asdict()
        return plain


def trace(size: int, kind: str, seed: int, walks: Sequence[WalkOptions]) -> MazeTrace:
    """Walk one maze with each of the given settings; the walks are those of simulation `seed` of the experiment.

    Args:
        size: M, the side of the maze.
        kind: `perfect` or `plus`.
        seed: seed of the maze and of every agent.
        walks: method and settings of each walk; they share the goal and the scope of the counts.
    """
    if len({(options.goal_ends, options.lifelong) for options in walks}) != 1:
        raise InputError("a trace needs at least one walk, and one goal and one scope of counts for all its walks")
    maze = generate(size, kind, seed, "terminal" if walks[0].goal_ends else "inert")
    return MazeTrace(
        size=maze.size,
        kind=maze.kind,
        seed=maze.seed,
        walls=tuple((bool(n), bool(s), bool(e), bool(w)) for n, s, e, w in maze.walls),
        portals=tuple((int(a), int(b)) for a, b in maze.portals),
        start=START,
        goal=maze.goal,
        runs=tuple(_walk(maze, options) for options in walks),
    )


def _walk(maze: Maze, options: WalkOptions) -> MethodTrace:
    from mmrs.paper.maze.kernel import walk  # noqa: PLC0415  numba takes a while to import

    result = walk(np.asarray(maze.next_state), options, maze.seed)
    return MethodTrace(
        method=METHODS[options.method],
        states=tuple(result.states.tolist()),
        resets=tuple(result.resets.tolist()),
        steps=result.steps,
        steps_to_coverage=result.steps if result.covered == maze.states else None,
        options=options,
    )
