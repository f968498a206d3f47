"""Where each method walked in one maze: what the interactive page and the sample figures are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mmrs.agents.maze_options import NATURAL_WEIGHT, walk_options
from mmrs.envs.maze import START, Maze, generate
from mmrs.errors import InputError


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


def trace(
    size: int = 20,
    kind: str = "plus",
    seed: int = 0,
    methods: Sequence[str] = ("vanilla", "jfi"),
    lambda_g: float = 0.1,
    gamma_g: float = 1.0,
    max_steps: int | None = None,
) -> MazeTrace:
    """Walk one maze of the coverage protocol with each method; the walks are those of simulation `seed`.

    Args:
        size: M, the side of the maze.
        kind: `perfect` or `plus`.
        seed: seed of the maze and of every agent.
        methods: names from `mmrs.agents.maze_options.METHODS`.
        lambda_g: weight of the intrinsic reward; the count penalty keeps its own.
        gamma_g: discount inside G.
        max_steps: where a walk is cut off; by default 1000 M².
    """
    if max_steps is not None and max_steps < 1:
        raise InputError(f"max_steps must be at least 1, not {max_steps}")
    maze = generate(size, kind, seed, "inert")
    runs = []
    for method in methods:
        weight = NATURAL_WEIGHT[method] if method == "count_penalty" else lambda_g
        runs.append(_walk(maze, method, weight, gamma_g, max_steps))
    return MazeTrace(
        size=maze.size,
        kind=maze.kind,
        seed=maze.seed,
        walls=tuple((bool(n), bool(s), bool(e), bool(w)) for n, s, e, w in maze.walls),
        portals=tuple((int(a), int(b)) for a, b in maze.portals),
        start=START,
        goal=maze.goal,
        lambda_g=lambda_g,
        gamma_g=gamma_g,
        runs=tuple(runs),
    )


def _walk(maze: Maze, method: str, weight: float, gamma_g: float, max_steps: int | None) -> MethodTrace:
    from mmrs.agents.maze_kernel import walk  # noqa: PLC0415  numba is an optional extra

    options = walk_options(method, maze.size, weight=weight, gamma_g=gamma_g, step_cap=max_steps)
    result = walk(np.asarray(maze.nxt), options, maze.seed)
    return MethodTrace(
        method=method,
        states=tuple(result.states.tolist()),
        resets=tuple(result.resets.tolist()),
        steps=result.steps,
        steps_to_coverage=result.steps if result.covered == maze.states else None,
    )
