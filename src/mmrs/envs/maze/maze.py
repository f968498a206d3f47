"""A maze: its walls, portals and table of next states; drawn from a seed, saved and loaded as JSON."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmrs.errors import InputError, did_you_mean
from mmrs.storage.files import write_atomic

KINDS = ("perfect", "plus")
"""`perfect`: carved only; `plus`: a further opening in 20 % of the cells, and round(M/3) pairs of portals."""
GOALS = ("terminal", "inert")
"""What the goal does: end the episode (as in gym-maze) or nothing (an ordinary cell)."""
DIRECTIONS = ("N", "S", "E", "W")
START = 0
MAX_SIZE = 1000
"""A larger maze would need gigabytes of tables."""
_FORMAT = "mmrs-maze/1"


@dataclass(frozen=True, eq=False)
class Maze:
    """A maze of `size` x `size` cells, S = size²; state = row * size + column; actions N, S, E, W."""

    size: int
    """M: cells along a side."""
    kind: str
    """`perfect`, `plus` or, if it was built by hand, any other word."""
    seed: int
    """Seed it was drawn from; -1 if it was built by hand."""
    walls: NDArray[np.bool_]
    """``[S, 4]``: whether a wall stands to the north, south, east and west of a cell."""
    portals: NDArray[np.int32]
    """``[P, 2]`` pairs of joined cells: entering one puts the agent on the other."""
    next_state: NDArray[np.int32]
    """``[S, 4]``: the state after each action; a bump stays in place."""

    @property
    def states(self) -> int:
        """S: the number of cells."""
        return self.size * self.size

    @property
    def goal(self) -> int:
        """The goal, bottom right."""
        return self.states - 1

    def reachable(self, goal: str = "inert") -> NDArray[np.bool_]:
        """``[S]``: cells a walk from the start can stand on; a terminal goal is entered but never left."""
        seen = np.zeros(self.states, np.bool_)
        seen[START] = True
        frontier = [START]
        while frontier:
            cell = frontier.pop()
            if goal == "terminal" and cell == self.goal:
                continue
            for other in self.next_state[cell].tolist():
                if not seen[other]:
                    seen[other] = True
                    frontier.append(other)
        return seen

    def save(self, path: str | Path) -> None:
        """Write the maze as a JSON file."""
        rows = (self.walls @ (1 << np.arange(4))).reshape(self.size, self.size)
        content = {
            "format": _FORMAT,
            "size": self.size,
            "kind": self.kind,
            "seed": self.seed,
            "walls": rows.tolist(),  # one number per cell: 1 north, 2 south, 4 east, 8 west
            "portals": self.portals.tolist(),
        }
        write_atomic(Path(path), json.dumps(content) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Maze:
        """Read a maze that `save` wrote; any other file is refused with the reason."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"cannot read the maze file {path}: {error.strerror}") from error
        except ValueError as error:
            raise InputError(f"{path} is not a maze file: not JSON ({error})") from error
        try:
            return _from_content(content)
        except InputError as error:
            raise InputError(f"{path} is not a maze file: {error}") from None


def build(walls: NDArray[np.bool_], portals: ArrayLike = (), kind: str = "custom", seed: int = -1) -> Maze:
    """A maze from its walls ``[S, 4]`` and portals ``[P, 2]``, which are checked."""
    size = int(np.sqrt(len(walls)))
    if walls.shape != (size * size, 4) or size < 2:
        raise InputError(f"walls must be [S, 4] with S a square of 2 or more, not {list(walls.shape)}")
    # Copies: the arrays are made read-only below, and the caller's own must stay writable.
    walls, pairs = walls.copy(), np.array(portals, np.int32).reshape(-1, 2)
    _check_walls(walls.reshape(size, size, 4))
    _check_portals(pairs, size * size)
    partner = np.arange(size * size, dtype=np.int32)
    partner[pairs] = pairs[:, ::-1]
    cells = np.arange(size * size, dtype=np.int32)
    steps = np.array([-size, size, 1, -1], np.int32)
    # Beyond a wall the index may lie outside the maze; it is never used there.
    beyond = partner[np.clip(cells[:, None] + steps, 0, size * size - 1)]
    next_state = np.where(walls, cells[:, None], beyond).astype(np.int32)
    for array in (walls, pairs, next_state):
        array.setflags(write=False)
    return Maze(size, kind, seed, walls, pairs, next_state)


def check_size(size: int) -> None:
    """Refuse a maze size that is not a whole number from 2 to `MAX_SIZE`."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 2 <= size <= MAX_SIZE:
        raise InputError(f"the size of a maze must be a whole number from 2 to {MAX_SIZE}, not {size!r}")


def checked_action(action: int, names: Sequence[str] = DIRECTIONS) -> int:
    """The action as an int; an action outside the range of `names` is refused."""
    try:
        number = operator.index(action)
    except TypeError:
        number = -1
    if not 0 <= number < len(names):
        listed = ", ".join(names)
        raise InputError(f"an action must be a whole number from 0 to {len(names) - 1} ({listed}), not {action!r}")
    return number


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of maze."""
    if kind not in KINDS:
        raise InputError(f"unknown kind of maze {kind!r}. {did_you_mean(kind, KINDS)}")


def generate(size: int, kind: str = "plus", seed: int = 0, goal: str = "inert") -> Maze:
    """Draw a maze from its seed; repeat until every cell is reachable.

    Args:
        size: M, at least 2.
        kind: `perfect` or `plus`.
        seed: the same seed gives the same maze.
        goal: with a `terminal` goal cells behind it count as unreachable, with an `inert` one they do not.
    """
    batch = generate_many(size, kind, np.array([_checked_seed(seed)], np.uint64), goal)
    walls = (batch.open[0][:, None] >> np.arange(4)) & 1 == 0
    partner = batch.partner[0]
    first = np.flatnonzero(partner > np.arange(size * size))
    return build(walls, np.stack([first, partner[first]], 1), kind, int(seed))


class MazeBatch(NamedTuple):
    """N mazes of one size, as arrays for compiled code."""

    next_state: NDArray[np.int32]
    """``[N, S, 4]`` next-state tables."""
    draws: NDArray[np.int64]
    """``[N]``: draws until every cell was reachable."""
    open: NDArray[np.uint8]
    """``[N, S]``: bit `1 << d` is set where direction d is open."""
    partner: NDArray[np.int32]
    """``[N, S]``: the other end of a cell's portal, or the cell itself."""


def generate_many(size: int, kind: str, seeds: NDArray[np.uint64], goal: str = "inert") -> MazeBatch:
    """One maze per seed, the same as `generate` draws."""
    check_size(size)
    check_kind(kind)
    if goal not in GOALS:
        raise InputError(f"unknown goal {goal!r}. {did_you_mean(goal, GOALS)}")
    from mmrs.envs.maze.generator import draw_mazes  # noqa: PLC0415  numba takes a while to import

    open_, partner, next_state, draws = draw_mazes(int(size), kind == "plus", goal == "terminal", seeds)
    if not draws.all():
        raise InputError(f"no {kind} maze of size {size} with every cell reachable turned up; try another size")
    return MazeBatch(next_state, draws, open_, partner)


def unreachable_rate(size: int, kind: str, goal: str = "terminal", mazes: int = 1000, first_seed: int = 0) -> float:
    """Fraction of first draws with an unreachable cell: the KPI is undefined on these."""
    seeds = np.arange(first_seed, first_seed + mazes, dtype=np.uint64)
    return float((generate_many(size, kind, seeds, goal).draws > 1).mean())


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
        raise InputError(f"a maze seed must be a whole number from 0 to 2**63 - 1, not {seed!r}")
    return int(seed)


def _check_walls(walls: NDArray[np.bool_]) -> None:
    """Check that each wall has both sides and that the rim is closed; `walls` is ``[M, M, 4]``."""
    north, south, east, west = np.moveaxis(walls, 2, 0)
    if not (north[0].all() and south[-1].all() and east[:, -1].all() and west[:, 0].all()):
        raise InputError("the outer wall has a gap")
    if (south[:-1] != north[1:]).any() or (east[:, :-1] != west[:, 1:]).any():
        raise InputError("a wall stands on one side only: neighboring cells disagree")


def _check_portals(pairs: NDArray[np.int32], states: int) -> None:
    if ((pairs <= START) | (pairs >= states - 1)).any():
        raise InputError("a portal lies outside the maze or on its start or goal")
    if len(np.unique(pairs)) != pairs.size:
        raise InputError("a cell belongs to two portals")


def _from_content(content: Any) -> Maze:
    """Build a maze from the content of a file; every field is checked."""
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f'the field "format" is not "{_FORMAT}"')
    size, kind, seed = content.get("size", 0), content.get("kind"), content.get("seed")
    check_size(size)
    if not isinstance(kind, str) or not isinstance(seed, int):
        raise InputError('the fields "kind" and "seed" must be a word and a whole number')
    rows = _whole_numbers(content.get("walls"), size, size, "walls")
    portals = content.get("portals")
    pairs = _whole_numbers(portals, len(portals) if isinstance(portals, list) else 0, 2, "portals")
    if ((rows < 0) | (rows > 15)).any():
        raise InputError('the numbers in "walls" must lie between 0 and 15')
    walls = (rows.reshape(-1, 1) >> np.arange(4)) & 1 == 1
    return build(walls, pairs, kind, seed)


def _whole_numbers(rows: Any, height: int, width: int, name: str) -> NDArray[np.int64]:
    """A list of `height` lists of `width` small whole numbers as an array."""
    right = isinstance(rows, list) and len(rows) == height
    if not right or not all(isinstance(row, list) and len(row) == width for row in rows):
        raise InputError(f'the field "{name}" must hold {height} lists of {width} numbers')
    if not all(type(number) is int and abs(number) < 2**31 for row in rows for number in row):
        raise InputError(f'the field "{name}" holds something other than whole numbers')
    return np.array(rows, np.int64).reshape(height, width)
