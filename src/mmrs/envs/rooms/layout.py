"""The state of compiled room worlds as arrays: one row of integers per environment."""

from __future__ import annotations

from mmrs.envs.base import Values
from mmrs.envs.rooms.maps import CELLS, World

CELL, PHASE, STEPS, EPISODE, STATES, VISITED, OVER, LAST, NOISE, STREAM, DRAWS, GRID = range(12)
"""Column indices of a row; the map begins at `GRID`."""


def width(world: World) -> int:
    """Length of a row."""
    return GRID + CELLS + 2 * world.phases * CELLS


def parts(rows: Values) -> tuple[Values, Values, Values, Values]:
    """Views of rows ``[N, W]``: state ``[N, 11]``, content of each cell ``[N, CELLS]``, and per true state ``[N, S]``
    the last episode that visited it and its visits since the last seeded reset.
    """
    half = GRID + CELLS + (rows.shape[1] - GRID - CELLS) // 2
    return rows[:, :GRID], rows[:, GRID : GRID + CELLS], rows[:, GRID + CELLS : half], rows[:, half:]
