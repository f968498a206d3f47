"""Observations of the compiled room worlds: features or gray images."""

from __future__ import annotations

import numpy as np

from mmrs.envs.base import Values
from mmrs.envs.numba_utils import jit
from mmrs.envs.rooms.layout import CELL, GRID, LAST, NOISE, PHASE
from mmrs.envs.rooms.maps import (
    BIT_WIDTH,
    CELLS,
    DOOR_CELL,
    GOAL,
    KEY_CELL,
    MAP_BLOCK,
    NO_KEY,
    NOISE_BITS,
    OPEN,
    PIXELS,
    SHADES,
    SIDE,
    VIEW,
    VIEW_BLOCK,
    WALL,
    key_rooms,
)

_BYTES = (SHADES * 255).astype(np.uint8)
_MAP_BLOCKS = np.kron(_BYTES[key_rooms()].reshape(SIDE, SIDE), np.ones((MAP_BLOCK, MAP_BLOCK), np.uint8))
# Images are written in words of eight pixels, which is many times faster; two lines are a whole number of words.
_PAIR = 2 * PIXELS // 8
_KEY_IMAGE = np.pad(_MAP_BLOCKS, (0, PIXELS - SIDE * MAP_BLOCK)).ravel().view(np.int64)
_SHOWN = np.where(np.isin(np.arange(len(_BYTES)), (WALL, GOAL)), _BYTES, 0).astype(np.uint8)
_SHOWN_WORDS = np.repeat(_SHOWN, 8).view(np.int64)
"""Eight pixels of each cell content as the view shows it."""
_WHITE = -1
"""Eight white pixels."""


def _block_lines(count: int, size: int) -> Values:
    """``[count, 21]``: two lines of pixels, white in the columns of one block of `size`, as words."""
    lines = np.zeros((count, 2, PIXELS), np.uint8)
    for block in range(count):
        lines[block, :, block * size : (block + 1) * size] = 255
    return lines.reshape(count, -1).view(np.int64)


_VIEW_LINES, _NOISE_LINES = _block_lines(VIEW, VIEW_BLOCK), _block_lines(NOISE_BITS, BIT_WIDTH)


@jit
def _window(row: int, column: int, grid: Values) -> int:
    if 0 <= row < SIDE and 0 <= column < SIDE:
        return int(grid[row * SIDE + column])
    return WALL


@jit
def _repeat(words: Values, count: int) -> None:
    """Repeat the first two lines of pixels over the first `count` lines."""
    for index in range(_PAIR, count * PIXELS // 8, _PAIR):
        for word in range(_PAIR):
            words[index + word] = words[word]


@jit
def _paint(out: Values, cell: int, shade: int) -> None:
    """Fill a cell in an image of the map."""
    for y in range(cell // SIDE * MAP_BLOCK, (cell // SIDE + 1) * MAP_BLOCK):
        for x in range(cell % SIDE * MAP_BLOCK, (cell % SIDE + 1) * MAP_BLOCK):
            out[y * PIXELS + x] = shade


@jit
def _view_features(row: Values, out: Values) -> None:
    grid = row[GRID : GRID + CELLS]
    top, left = row[CELL] // SIDE - VIEW // 2, row[CELL] % SIDE - VIEW // 2
    for index in range(VIEW * VIEW):
        content = _window(top + index // VIEW, left + index % VIEW, grid)
        out[index] = content == WALL
        out[VIEW * VIEW + index] = content == GOAL
    out[2 * VIEW * VIEW :] = 0
    out[2 * VIEW * VIEW + row[LAST]] = 1


@jit
def _view_image(row: Values, out: Values) -> None:
    grid, words = row[GRID : GRID + CELLS], out.view(np.int64)
    top, left = row[CELL] // SIDE - VIEW // 2, row[CELL] % SIDE - VIEW // 2
    height = VIEW_BLOCK * PIXELS // 8
    for y in range(VIEW + 1):
        band = words[y * height : (y + 1) * height]
        band[:_PAIR] = 0
        for x in range(VIEW):
            shade = _SHOWN_WORDS[_window(top + y, left + x, grid)]
            if y == VIEW:  # the last action, below the window
                shade = _WHITE if x == row[LAST] else 0
            elif y == VIEW // 2 and x == VIEW // 2:
                shade = _WHITE
            for word in range(_PAIR):
                band[word] |= _VIEW_LINES[x, word] & shade
        _repeat(band, VIEW_BLOCK)


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
    """The map at the start of an episode, with the cells that have changed since."""
    words = out.view(np.int64)
    for index in range(len(words)):
        words[index] = _KEY_IMAGE[index]
    if row[PHASE] != NO_KEY:
        _paint(out, KEY_CELL, 0)
    if row[PHASE] == OPEN:
        _paint(out, DOOR_CELL, 0)
    _paint(out, row[CELL], 255)
    if noise:
        strip = words[SIDE * MAP_BLOCK * PIXELS // 8 :]
        for bit in range(NOISE_BITS):
            for word in range(_PAIR):
                strip[word] |= _NOISE_LINES[bit, word] & -(row[NOISE] >> bit & 1)
        _repeat(strip, PIXELS - SIDE * MAP_BLOCK)


@jit
def observe(procedural: bool, noise: bool, image: bool, row: Values, out: Values) -> None:
    """Write the observation of an environment to `out` ``[F]``, equal to that of `RoomsEnv`."""
    if procedural and image:
        _view_image(row, out)
    elif procedural:
        _view_features(row, out)
    elif image:
        _map_image(noise, row, out)
    else:
        _map_features(noise, row, out)
