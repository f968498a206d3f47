"""Compiled maze generator with the rules of gym-maze, including its quirks.

Cells are numbered row by row; directions are the actions N, S, E, W = 0, 1, 2, 3, and bit `1 << d` of
`open[cell]` says that one can walk out of it in direction d.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.numba_utils import STRIDE, below, jit, parallel_jit, prange, splitmix64

MAX_DRAWS = 10_000
_SALT = np.uint64(0x6D617A65)  # separates the stream of a maze from that of an agent with the same seed
MazeArrays = tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]


@jit
def _below(rng: Any, n: Any) -> Any:
    """A random integer in [0, n) from the splitmix64 stream whose state is `rng[0]`."""
    rng[0] += STRIDE
    return below(splitmix64(rng[0]), n)


@jit
def _neighbor(cell: Any, direction: Any, size: Any) -> Any:
    """The adjacent cell in a direction, or -1 outside the maze."""
    row, column = cell // size, cell % size
    if direction == 0:
        return cell - size if row > 0 else -1
    if direction == 1:
        return cell + size if row < size - 1 else -1
    if direction == 2:
        return cell + 1 if column < size - 1 else -1
    return cell - 1 if column > 0 else -1


@jit
def _open_wall(open_: Any, cell: Any, other: Any, direction: Any) -> None:
    open_[cell] |= np.uint8(1 << direction)
    open_[other] |= np.uint8(1 << (direction ^ 1))


@jit
def _carve(size: Any, rng: Any, open_: Any, carved: Any, stack: Any) -> None:
    """Depth-first carving from a random root.

    As in gym-maze the root itself never counts as carved, so the walk may enter it again: most "perfect" mazes have
    one cycle.
    """
    open_[:] = 0
    carved[:] = False
    stack[0] = _below(rng, size * size)
    depth = 1
    choices = np.empty(4, np.int64)
    while depth > 0:
        cell = stack[depth - 1]
        found = 0
        for direction in range(4):
            other = _neighbor(cell, direction, size)
            if other >= 0 and not carved[other]:
                choices[found] = direction
                found += 1
        if found == 0:
            depth -= 1
            continue
        direction = choices[_below(rng, found)]
        other = _neighbor(cell, direction, size)
        _open_wall(open_, cell, other, direction)
        carved[other] = True
        stack[depth] = other
        depth += 1


@jit
def _draw_distinct(rng: Any, order: Any, first: Any, last: Any, number: Any) -> None:
    """Put `number` distinct random cells of [first, last) at the front of `order`, in random order."""
    total = last - first
    for i in range(total):
        order[i] = first + i
    for i in range(number):
        j = i + _below(rng, total - i)
        order[i], order[j] = order[j], order[i]


@jit
def _add_loops(size: Any, rng: Any, open_: Any, order: Any) -> None:
    """One further opening in each of 20 % of the cells, in the first closed direction of a random order."""
    cells = size * size
    number = int(np.floor(0.2 * cells + 0.5))
    _draw_distinct(rng, order, 0, cells, number)
    directions = np.empty(4, np.int64)
    for i in range(number):
        cell = order[i]
        _draw_distinct(rng, directions, 0, 4, 4)
        for direction in directions:
            other = _neighbor(cell, direction, size)
            if other >= 0 and not open_[cell] & np.uint8(1 << direction):
                _open_wall(open_, cell, other, direction)
                break


@jit
def _add_portals(size: Any, rng: Any, partner: Any, order: Any) -> None:
    """round(M/3) pairs of cells, never start or goal; elsewhere `partner[cell]` is the cell itself."""
    number = int(np.floor(size / 3 + 0.5))
    _draw_distinct(rng, order, 1, size * size - 1, 2 * number)
    for i in range(number):
        a, b = order[2 * i], order[2 * i + 1]
        partner[a], partner[b] = b, a


@jit
def fill_next(size: Any, open_: Any, partner: Any, next_state: Any) -> None:
    """The next-state table: a bump stays in place, and entering a portal leads to its partner."""
    for cell in range(size * size):
        for direction in range(4):
            if open_[cell] & np.uint8(1 << direction):
                next_state[cell, direction] = partner[_neighbor(cell, direction, size)]
            else:
                next_state[cell, direction] = cell


@jit
def count_reachable(next_state: Any, goal_ends: Any, stack: Any, seen: Any) -> Any:
    """Cells that a walk from the start can stand on; a terminal goal is entered but never left."""
    cells = next_state.shape[0]
    seen[:] = False
    seen[0] = True
    stack[0] = 0
    depth, found = 1, 1
    while depth > 0:
        depth -= 1
        cell = stack[depth]
        if goal_ends and cell == cells - 1:
            continue
        for direction in range(4):
            other = next_state[cell, direction]
            if not seen[other]:
                seen[other] = True
                found += 1
                stack[depth] = other
                depth += 1
    return found


@jit
def _draw_one(size: Any, plus: Any, goal_ends: Any, seed: Any, open_: Any, partner: Any, next_state: Any) -> Any:
    """Draw until every cell is reachable; returns the number of draws, or 0 if `MAX_DRAWS` were not enough."""
    cells = size * size
    rng = np.empty(1, np.uint64)
    rng[0] = splitmix64(seed * STRIDE + _SALT)
    # The root may be carved into again, so the stack holds one cell more than the maze.
    stack, order, flags = np.empty(cells + 2, np.int64), np.empty(cells, np.int64), np.empty(cells, np.bool_)
    for draw in range(1, MAX_DRAWS + 1):
        _carve(size, rng, open_, flags, stack)
        for cell in range(cells):
            partner[cell] = cell
        if plus:
            _add_loops(size, rng, open_, order)
            _add_portals(size, rng, partner, order)
        fill_next(size, open_, partner, next_state)
        if count_reachable(next_state, goal_ends, stack, flags) == cells:
            return draw
    return 0


@parallel_jit
def _draw_many(size: Any, plus: Any, goal_ends: Any, seeds: Any, open_: Any, partner: Any, next_state: Any) -> Any:
    draws = np.empty(seeds.shape[0], np.int64)
    for i in prange(seeds.shape[0]):
        draws[i] = _draw_one(size, plus, goal_ends, seeds[i], open_[i], partner[i], next_state[i])
    return draws


def draw_mazes(size: int, plus: bool, goal_ends: bool, seeds: NDArray[np.uint64]) -> MazeArrays:
    """One maze for each seed: `open [N, S]`, `partner [N, S]`, `next_state [N, S, 4]` and the draws each took."""
    number, cells = len(seeds), size * size
    open_ = np.empty((number, cells), np.uint8)
    partner = np.empty((number, cells), np.int32)
    next_state = np.empty((number, cells, 4), np.int32)
    return open_, partner, next_state, _draw_many(size, plus, goal_ends, seeds, open_, partner, next_state)
