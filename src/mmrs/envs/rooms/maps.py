"""Maps of the room worlds: nine rooms of 3x3 cells on a 13x13 grid, their passages, and the reachable states.

Everything here is plain Python: the reference environment uses it, and the compiled one must agree with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mmrs.errors import InputError, did_you_mean

Grid = NDArray[np.uint8]
SIDE = 13
CELLS = SIDE * SIDE
ROOMS = 3
"""Rooms along a side."""
FLOOR, WALL, DOOR, KEY, GOAL = range(5)
"""Content of a cell of a grid."""
NO_KEY, HAS_KEY, OPEN = range(3)
"""Phases of an episode; a true state is ``phase * CELLS + cell``."""
MOVES = (-SIDE, SIDE, 1, -1)
"""Change of the cell by the actions N, S, E, W."""
NOISE_ACTION = 4
NO_ACTION = 4
"""Index of "none" in the observation of the last action, after N, S, E and W."""
NOISE_BITS = 16
VIEW = 5
"""Cells along a side of the egocentric view."""
TIME_LIMIT = 200
SHADES = np.array([0.0, 0.3, 0.5, 0.6, 0.8], np.float32)
"""Gray level of floor, wall, closed door, key and goal; the agent is 1."""
PIXELS = 84
"""Side of an image observation."""
MAP_BLOCK, VIEW_BLOCK, BIT_WIDTH = 6, 14, 5
"""Pixels per cell in an image of the map, per cell in an image of the view, and per bit of noise."""
STRIDE = 0x9E3779B97F4A7C15
"""Increment of the state of a splitmix64 stream per draw."""
_MASK_64 = (1 << 64) - 1
_SERPENTINE = ((0, 1), (1, 2), (2, 5), (5, 4), (4, 3), (3, 6), (6, 7), (7, 8))
"""Rooms in row-major order: along the first row, back along the second, along the third."""


def cell_at(row: int, column: int) -> int:
    """Index of a cell."""
    return row * SIDE + column


def middle(room: int) -> int:
    """The cell in the middle of a room."""
    return cell_at(4 * (room // ROOMS) + 2, 4 * (room % ROOMS) + 2)


# Every pair of rooms that share a wall: to the east first, then to the south.
PAIRS = tuple(
    (room, other)
    for room in range(ROOMS * ROOMS)
    for other in ((room + 1,) if room % ROOMS < ROOMS - 1 else ()) + ((room + ROOMS,) if room < 6 else ())
)
PASSAGES = tuple((middle(a) + middle(b)) // 2 for a, b in PAIRS)
"""The wall cell between the rooms of each pair, which a passage replaces."""
START = middle(0)
DOOR_CELL = (middle(5) + middle(4)) // 2
KEY_CELL = cell_at(1, 11)
_GOAL_CELL = cell_at(11, 11)


def closed_rooms() -> Grid:
    """Nine rooms without passages."""
    grid = np.full((SIDE, SIDE), WALL, np.uint8)
    for row in range(1, SIDE, 4):
        for column in range(1, SIDE, 4):
            grid[row : row + 3, column : column + 3] = FLOOR
    return grid.ravel()


def key_rooms() -> Grid:
    """The fixed map: key in the third room of the serpentine, door behind the fourth, goal in the ninth."""
    grid = closed_rooms()
    for a, b in _SERPENTINE:
        grid[(middle(a) + middle(b)) // 2] = FLOOR
    grid[DOOR_CELL], grid[KEY_CELL], grid[_GOAL_CELL] = DOOR, KEY, GOAL
    return grid


def splitmix64(z: int) -> int:
    """64 random bits of the splitmix64 stream whose state is `z`; `numba_utils.splitmix64` is the same in numba."""
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK_64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK_64
    return z ^ z >> 31


class Stream:
    """Counter-based random numbers: draw c of a stream is a hash of (stream, c), here and in compiled code."""

    def __init__(self, key: int) -> None:
        self.key, self.count = key, 0

    def bits(self) -> int:
        """The next 64 random bits."""
        self.count += 1
        return splitmix64(self.key + self.count * STRIDE & _MASK_64)

    def below(self, number: int) -> int:
        """A number from 0 to `number` - 1."""
        return (self.bits() >> 32) * number >> 32


def multi_rooms(stream: Stream) -> Grid:
    """A new map: the passages of a random spanning tree, and the goal in the middle of the room farthest along it.

    Passages are opened in random order unless they would close a loop; of equally distant rooms the first is taken.
    """
    order = list(range(len(PAIRS)))
    for i in range(len(order) - 1, 0, -1):
        j = stream.below(i + 1)
        order[i], order[j] = order[j], order[i]
    grid, group = closed_rooms(), list(range(ROOMS * ROOMS))
    neighbors: list[list[int]] = [[] for _ in group]
    for number in order:
        a, b = PAIRS[number]
        if group[a] != group[b]:
            group = [group[a] if g == group[b] else g for g in group]
            grid[PASSAGES[number]] = FLOOR
            neighbors[a].append(b)
            neighbors[b].append(a)
    grid[middle(_farthest(neighbors))] = GOAL
    return grid


def _farthest(neighbors: list[list[int]]) -> int:
    """The room with the most passages between it and the first room."""
    depth, queue = {0: 0}, [0]
    for room in queue:
        for other in neighbors[room]:
            if other not in depth:
                depth[other] = depth[room] + 1
                queue.append(other)
    return min(depth, key=lambda room: (-depth[room], room))


def move(grid: Grid, cell: int, phase: int, action: int) -> tuple[int, int]:
    """Cell and phase after a move; a wall blocks it, and so does the door without the key."""
    target = cell + MOVES[action]
    content = grid[target]
    if content == WALL or (content == DOOR and phase == NO_KEY):
        return cell, phase
    return target, max(phase, HAS_KEY if content == KEY else OPEN if content == DOOR else NO_KEY)


def reachable_states(grid: Grid) -> set[int]:
    """Every true state that can be reached, by search; the goal ends an episode."""
    first = (START, NO_KEY)
    seen, queue = {first}, [first]
    for cell, phase in queue:
        if grid[cell] == GOAL:
            continue
        for action in range(len(MOVES)):
            state = move(grid, cell, phase, action)
            if state not in seen:
                seen.add(state)
                queue.append(state)
    return {phase * CELLS + cell for cell, phase in seen}


@dataclass(frozen=True)
class World:
    """The properties in which the worlds differ."""

    name: str
    actions: tuple[str, ...]
    features: int
    """Length of a feature observation."""
    phases: int
    """Number of phases of its true states."""
    procedural: bool
    """Whether each episode has a new map."""
    noise: bool
    """Whether a fifth action redraws the noise."""


_WALK = ("N", "S", "E", "W")
WORLDS = {
    world.name: world
    for world in (
        World("KeyRooms", _WALK, CELLS, 3, procedural=False, noise=False),
        World("MultiRooms", _WALK, 2 * VIEW * VIEW + 5, 1, procedural=True, noise=False),
        World("NoisyTV", (*_WALK, "redraw"), CELLS + NOISE_BITS, 3, procedural=False, noise=True),
    )
}


def world_named(name: str) -> World:
    """One of `WORLDS`; an unknown name is refused with a suggestion."""
    if name not in WORLDS:
        raise InputError(f"unknown world {name!r}. {did_you_mean(name, WORLDS)}")
    return WORLDS[name]


@lru_cache
def reachable(world: World) -> tuple[int, int]:
    """Number of true states reachable in one episode, and in all episodes together.

    All spanning trees have the same number of passages, and over many episodes each passage is open once. Noise is not
    part of a true state: nothing depends on it.
    """
    if not world.procedural:
        states = len(reachable_states(key_rooms()))
        return states, states
    everything = closed_rooms()
    everything[list(PASSAGES)] = FLOOR
    return len(reachable_states(multi_rooms(Stream(0)))), len(reachable_states(everything))
