"""What the compiled room worlds show: features, or grey images."""

from __future__ import annotations

import numpy as np

from mmrs.envs.compiled import jit
from mmrs.envs.rooms_map import (
    CELLS,
    DOOR_CELL,
    GOAL,
    KEY_CELL,
    NO_KEY,
    NOISE_BITS,
    OPEN,
    PIXELS,
    SHADES,
    SIDE,
    VIEW,
    WALL,
    key_rooms,
)
from mmrs.envs.rooms_rows import CELL, GRID, LAST, NOISE, PHASE, Values

_BYTES = (SHADES * 255).astype(np.uint8)
_KEY_BLOCK, _VIEW_BLOCK, _BIT_WIDTH = 6, 14, 5
_MAP_BLOCKS = np.kron(_BYTES[key_rooms()].reshape(SIDE, SIDE), np.ones((_KEY_BLOCK, _KEY_BLOCK), np.uint8))
_KEY_IMAGE = np.pad(_MAP_BLOCKS, (0, PIXELS - SIDE * _KEY_BLOCK)).ravel().view(np.int64)  # bytes copy far slower


@jit
def _window(row: int, column: int, grid: Values) -> int:
    if 0 <= row < SIDE and 0 <= column < SIDE:
        return int(grid[row * SIDE + column])
    return WALL


@jit
def _spread(out: Values, top: int, height: int) -> None:
    """Copy a line of pixels to those below it, `height` (an even number) in all."""
    begin = top * PIXELS
    for x in range(begin, begin + PIXELS):
        out[x + PIXELS] = out[x]
    words = out[begin : begin + height * PIXELS].view(np.int64)  # two lines are whole words; bytes copy far slower
    pair = 2 * PIXELS // 8
    for place in range(pair, len(words), pair):
        for word in range(pair):
            words[place + word] = words[word]


@jit
def _paint(out: Values, cell: int, shade: int) -> None:
    """A cell of the map in an image of it."""
    for y in range(cell // SIDE * _KEY_BLOCK, (cell // SIDE + 1) * _KEY_BLOCK):
        for x in range(cell % SIDE * _KEY_BLOCK, (cell % SIDE + 1) * _KEY_BLOCK):
            out[y * PIXELS + x] = shade


@jit
def _view_features(row: Values, out: Values) -> None:
    grid = row[GRID : GRID + CELLS]
    top, left = row[CELL] // SIDE - VIEW // 2, row[CELL] % SIDE - VIEW // 2
    for place in range(VIEW * VIEW):
        held = _window(top + place // VIEW, left + place % VIEW, grid)
        out[place] = held == WALL
        out[VIEW * VIEW + place] = held == GOAL
    out[2 * VIEW * VIEW :] = 0
    out[2 * VIEW * VIEW + row[LAST]] = 1


@jit
def _view_image(row: Values, out: Values) -> None:
    grid, size = row[GRID : GRID + CELLS], _VIEW_BLOCK
    top, left = row[CELL] // SIDE - VIEW // 2, row[CELL] % SIDE - VIEW // 2
    for y in range(VIEW + 1):
        line = out[y * size * PIXELS : (y * size + 1) * PIXELS]
        line[:] = 0
        if y == VIEW:
            line[row[LAST] * size : (row[LAST] + 1) * size] = 255
        else:
            for x in range(VIEW):
                held = _window(top + y, left + x, grid)
                shade = _BYTES[held] if held in (WALL, GOAL) else np.uint8(0)
                line[x * size : (x + 1) * size] = 255 if y == VIEW // 2 and x == VIEW // 2 else shade
        _spread(out, y * size, size)


@jit
def _map_features(noise: bool, row: Values, out: Values) -> None:
    for cell in range(CELLS):
        out[cell] = SHADES[row[GRID + cell]]
    out[row[CELL]] = 1
    if noise:
        for bit in range(NOISE_BITS):
            out[CELLS + bit] = row[NOISE] >> bit & 1


@jit
def _map_image(noise: bool, row: Values, out: Values) -> None:
    """The map as it always begins, and what has changed in it."""
    words = out.view(np.int64)
    for place in range(len(words)):
        words[place] = _KEY_IMAGE[place]
    if row[PHASE] != NO_KEY:
        _paint(out, KEY_CELL, 0)
    if row[PHASE] == OPEN:
        _paint(out, DOOR_CELL, 0)
    _paint(out, row[CELL], 255)
    if noise:
        top = SIDE * _KEY_BLOCK
        for bit in range(NOISE_BITS):
            for x in range(bit * _BIT_WIDTH, (bit + 1) * _BIT_WIDTH):
                out[top * PIXELS + x] = (row[NOISE] >> bit & 1) * 255
        _spread(out, top, PIXELS - top)


@jit
def observe(procedural: bool, noise: bool, image: bool, row: Values, out: Values) -> None:
    """What an environment shows, into ``[F]``: as `rooms_env` draws it."""
    if procedural and image:
        _view_image(row, out)
    elif procedural:
        _view_features(row, out)
    elif image:
        _map_image(noise, row, out)
    else:
        _map_features(noise, row, out)
