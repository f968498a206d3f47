"""Pictures of a room world: walls, the way of the episode, key, door, goal, agent, and the noise below."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.rooms.maps import CELLS, DOOR, GOAL, KEY, NO_KEY, NOISE_BITS, SIDE, VIEW, WALL, Grid, World

Picture = NDArray[np.uint8]
BLOCK = 32
"""Pixels along a side of a cell."""
FLOOR_COLOUR, TRAIL_COLOUR, WALL_COLOUR = (244, 242, 236), (205, 222, 240), (52, 54, 66)
KEY_COLOUR, DOOR_COLOUR, GOAL_COLOUR, AGENT_COLOUR = (230, 159, 0), (140, 84, 40), (0, 158, 115), (20, 90, 200)


def draw(world: World, grid: Grid, cell: int, phase: int, seen: NDArray[np.bool_], noise: int) -> Picture:
    """A picture ``[H, W, 3]``; `seen` ``[CELLS]`` are the cells of this episode's way."""
    colours = np.where(seen[:, None], TRAIL_COLOUR, FLOOR_COLOUR).astype(np.uint8)
    colours[grid == WALL] = WALL_COLOUR
    picture: Picture = np.kron(colours.reshape(SIDE, SIDE, 3), np.ones((BLOCK, BLOCK, 1), np.uint8))
    for held, colour, inset in ((DOOR, DOOR_COLOUR, 2), (KEY, KEY_COLOUR, 10), (GOAL, GOAL_COLOUR, 5)):
        for place in np.flatnonzero(grid == held).tolist():
            _block(picture, place)[inset : BLOCK - inset, inset : BLOCK - inset] = colour
    _disc(_block(picture, cell), 11, AGENT_COLOUR)
    if phase != NO_KEY:
        _disc(_block(picture, cell), 4, KEY_COLOUR)
    if world.procedural:
        return _dimmed_outside(picture, cell)
    return np.concatenate([picture, _noise_strip(noise)]) if world.noise else picture


def _block(picture: Picture, cell: int) -> Picture:
    row, column = cell // SIDE * BLOCK, cell % SIDE * BLOCK
    return picture[row : row + BLOCK, column : column + BLOCK]


def _disc(block: Picture, radius: int, colour: tuple[int, int, int]) -> None:
    y, x = np.mgrid[:BLOCK, :BLOCK] - (BLOCK - 1) / 2
    block[x * x + y * y <= radius * radius] = colour


def _dimmed_outside(picture: Picture, cell: int) -> Picture:
    """What the agent cannot see is shown darker."""
    cells = np.arange(CELLS)
    near = (abs(cells // SIDE - cell // SIDE) <= VIEW // 2) & (abs(cells % SIDE - cell % SIDE) <= VIEW // 2)
    light = np.where(near, 1.0, 0.55).reshape(SIDE, SIDE)
    return (picture * np.kron(light, np.ones((BLOCK, BLOCK)))[..., None]).astype(np.uint8)


def _noise_strip(noise: int) -> Picture:
    bits = (noise >> np.arange(NOISE_BITS) & 1).astype(np.uint8) * 255
    row = np.repeat(bits, SIDE * BLOCK // NOISE_BITS)
    return np.broadcast_to(row[None, :, None], (BLOCK, SIDE * BLOCK, 3)).copy()
