"""The room worlds as numbers: one row of whole numbers an environment."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mmrs.envs.rooms.maps import CELLS, World

Values = NDArray[Any]
CELL, PHASE, STEPS, EPISODE, STATES, VISITED, OVER, LAST, NOISE, STREAM, DRAWS, GRID = range(12)
"""First columns of an environment; `GRID` is where the map begins."""


def width(world: World) -> int:
    """Numbers an environment takes."""
    return GRID + CELLS + 2 * world.phases * CELLS


def parts(rows: Values) -> tuple[Values, Values, Values, Values]:
    """Views of environments ``[N, W]``: state ``[N, 11]``, what each cell holds ``[N, CELLS]``, and for each true state
    ``[N, S]`` the last episode that visited it and the visits since the last seeded reset.
    """
    half = GRID + CELLS + (rows.shape[1] - GRID - CELLS) // 2
    return rows[:, :GRID], rows[:, GRID : GRID + CELLS], rows[:, GRID + CELLS : half], rows[:, half:]
