"""Pictures of a room world: walls, the trail of the episode, key, door, goal, agent, and the noise below."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.rooms.maps import CELLS, DOOR, GOAL, KEY, NO_KEY, NOISE_BITS, SIDE, VIEW, WALL, Grid, World

Picture = NDArray[np.uint8]
BLOCK = 32
"""Pixels along a side of a cell."""
FLOOR_COLOR, TRAIL_COLOR, WALL_COLOR = (244, 242, 236), (205, 222, 240), (52, 54, 66)
KEY_COLOR, DOOR_COLOR, GOAL_COLOR, AGENT_COLOR = (230, 159, 0), (140, 84, 40), (0, 158, 115), (20, 90, 200)


def draw(world: World, grid: Grid, cell: int, phase: int, seen: NDArray[np.bool_], noise: int) -> Picture:
    """A picture ``[H, W, 3]``; `seen` ``[CELLS]`` marks the cells that this episode has visited."""
    colors = np.where(seen[:, None], TRAIL_COLOR, FLOOR_COLOR).astype(np.uint8)
    colors[grid == WALL] = WALL_COLOR
    picture: Picture = np.kron(colors.reshape(SIDE, SIDE, 3), np.ones((BLOCK, BLOCK, 1), np.uint8))
    for content, color, inset in ((DOOR, DOOR_COLOR, 2), (KEY, KEY_COLOR, 10), (GOAL, GOAL_COLOR, 5)):
        for index in np.flatnonzero(grid == content).tolist():
            _block(picture, index)[inset : BLOCK - inset, inset : BLOCK - inset] = color
    _disc(_block(picture, cell), 11, AGENT_COLOR)
    if phase != NO_KEY:
        _disc(_block(picture, cell), 4, KEY_COLOR)
    if world.procedural:
        return _dimmed_outside(picture, cell)
    return np.concatenate([picture, _noise_strip(noise)]) if world.noise else picture


def _block(picture: Picture, cell: int) -> Picture:
    row, column = cell // SIDE * BLOCK, cell % SIDE * BLOCK
    return picture[row : row + BLOCK, column : column + BLOCK]


def _disc(block: Picture, radius: int, color: tuple[int, int, int]) -> None:
    y, x = np.mgrid[:BLOCK, :BLOCK] - (BLOCK - 1) / 2
    block[x * x + y * y <= radius * radius] = color


def _dimmed_outside(picture: Picture, cell: int) -> Picture:
    """Darken the cells that the agent does not see."""
    cells = np.arange(CELLS)
    near = (abs(cells // SIDE - cell // SIDE) <= VIEW // 2) & (abs(cells % SIDE - cell % SIDE) <= VIEW // 2)
    light = np.where(near, 1.0, 0.55).reshape(SIDE, SIDE)
    return (picture * np.kron(light, np.ones((BLOCK, BLOCK)))[..., None]).astype(np.uint8)


def _noise_strip(noise: int) -> Picture:
    bits = (noise >> np.arange(NOISE_BITS) & 1).astype(np.uint8) * 255
    row = np.repeat(bits, SIDE * BLOCK // NOISE_BITS)
    return np.broadcast_to(row[None, :, None], (BLOCK, SIDE * BLOCK, 3)).copy()
