"""The compiled room worlds: N environments per call, equal to `RoomsEnv` step for step.

An environment is one row of integers. So it is saved and restored by copying the row, and a call passes few arrays:
to unpack one array costs as much as to step one environment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mmrs.envs.base import Values
from mmrs.envs.numba_utils import STRIDE, below, jit, splitmix64
from mmrs.envs.rooms.layout import (
    CELL,
    DRAWS,
    EPISODE,
    GRID,
    LAST,
    NOISE,
    OVER,
    PHASE,
    STATES,
    STEPS,
    STREAM,
    VISITED,
)
from mmrs.envs.rooms.maps import (
    CELLS,
    DOOR,
    FLOOR,
    GOAL,
    HAS_KEY,
    KEY,
    MOVES,
    NO_ACTION,
    NO_KEY,
    NOISE_ACTION,
    NOISE_BITS,
    OPEN,
    PAIRS,
    PASSAGES,
    ROOMS,
    START,
    TIME_LIMIT,
    WALL,
    closed_rooms,
    key_rooms,
    middle,
)
from mmrs.envs.rooms.observations import observe

NEXT_STEP, SAME_STEP, DISABLED = range(3)
"""When an environment that ended restarts: at the next step, in the same step, or at an explicit reset."""
_PAIRS, _PASSAGES, _MOVES = np.array(PAIRS), np.array(PASSAGES), np.array(MOVES)
_MIDDLES = np.array([middle(room) for room in range(ROOMS * ROOMS)])
_CLOSED, _KEY_ROOMS = closed_rooms(), key_rooms()
_U48 = np.uint64(64 - NOISE_BITS)


@jit
def _bits(row: Values) -> Any:
    """The next 64 random bits of an environment's stream."""
    row[DRAWS] += 1
    return splitmix64(np.uint64(row[STREAM]) + np.uint64(row[DRAWS]) * STRIDE)


@jit
def _draw_map(row: Values, grid: Values) -> None:
    """The compiled form of `maps.multi_rooms`."""
    order = np.arange(len(_PASSAGES))
    for i in range(len(order) - 1, 0, -1):
        j = below(_bits(row), i + 1)
        order[i], order[j] = order[j], order[i]
    rooms = len(_MIDDLES)
    group, joined = np.arange(rooms), np.zeros((rooms, rooms), np.bool_)
    grid[:] = _CLOSED
    for number in order:
        a, b = _PAIRS[number]
        kept, gone = group[a], group[b]
        if kept != gone:
            for room in range(rooms):
                if group[room] == gone:
                    group[room] = kept
            grid[_PASSAGES[number]] = FLOOR
            joined[a, b] = joined[b, a] = True
    depth = np.full(rooms, -1)
    queue = np.zeros(rooms, np.int64)
    depth[0], known = 0, 1
    for index in range(rooms):
        room = queue[index]
        for other in range(rooms):
            if joined[room, other] and depth[other] < 0:
                depth[other] = depth[room] + 1
                queue[known] = other
                known += 1
    grid[_MIDDLES[np.argmax(depth)]] = GOAL


@jit
def _visit(row: Values) -> None:
    states = (len(row) - GRID - CELLS) // 2
    index = GRID + CELLS + row[PHASE] * CELLS + row[CELL]
    if row[index] != row[EPISODE]:
        row[index] = row[EPISODE]
        row[STATES] += 1
    if row[index + states] == 0:
        row[VISITED] += 1
    row[index + states] += 1


@jit
def _begin(procedural: bool, row: Values) -> None:
    """Start an episode."""
    grid = row[GRID : GRID + CELLS]
    if procedural:
        _draw_map(row, grid)
    else:
        grid[:] = _KEY_ROOMS
    row[CELL], row[PHASE], row[STEPS], row[STATES] = START, NO_KEY, 0, 0
    row[OVER], row[LAST], row[NOISE] = 0, NO_ACTION, 0
    row[EPISODE] += 1
    _visit(row)


@jit
def _move(action: int, row: Values) -> bool:
    """Move or redraw the noise; returns whether the goal was reached."""
    grid = row[GRID : GRID + CELLS]
    if action == NOISE_ACTION:
        row[NOISE] = np.int64(_bits(row) >> _U48)
    else:
        target = row[CELL] + _MOVES[action]
        content = grid[target]
        if content != WALL and (content != DOOR or row[PHASE] != NO_KEY):
            row[CELL] = target
            if content == KEY:
                row[PHASE] = HAS_KEY
            elif content == DOOR:
                row[PHASE] = OPEN
    row[STEPS] += 1
    row[LAST] = action
    if grid[row[CELL]] == GOAL:
        return True
    grid[row[CELL]] = FLOOR
    return False


@jit
def reset(procedural: bool, noise: bool, image: bool, rows: Values, mask: Values, obs: Values) -> None:
    """Start an episode in the environments of the mask ``[N]``; write the observations ``[N, F]`` of all."""
    for i in range(len(mask)):
        if mask[i]:
            _begin(procedural, rows[i])
        observe(procedural, noise, image, rows[i], obs[i])


@jit
def _first_wrong(noise: bool, mode: int, rows: Values, actions: Values) -> int:
    """Index of the first environment that cannot be stepped, or N."""
    for i in range(len(actions)):
        if not 0 <= actions[i] < (5 if noise else 4) or (mode == DISABLED and rows[i, OVER]):
            return i
    return len(actions)


@jit
def step(
    procedural: bool, noise: bool, image: bool, mode: int,
    rows: Values, actions: Values, obs: Values, last: Values, flags: Values, stats: Values,
) -> int:  # fmt: skip
    """Step all environments, or none if one of them cannot be stepped.

    Args:
        procedural: whether each episode has a new map.
        noise: whether there is a fifth action.
        image: whether observations are images.
        mode: one of `NEXT_STEP`, `SAME_STEP` and `DISABLED`.
        rows: ``[N, W]``, the environments; changed in index.
        actions: ``[N]`` int64.
        obs: ``[N, F]``, written.
        last: ``[N, F]``, written where an episode ended under SAME_STEP: its true last observation.
        flags: ``[2, N]`` bool, written: terminated (success, and a reward of 1) and truncated.
        stats: ``[2, 3, N]`` int64, written: states of the episode, states visited ever, and steps of the episode; first
            those of `obs`, then those before a reset. They differ where an episode ended under SAME_STEP.

    Returns:
        Number of episodes that ended; or -1 - i if the action of environment i is invalid or its episode is over.
    """
    wrong = _first_wrong(noise, mode, rows, actions)
    if wrong < len(actions):
        return -1 - wrong
    ended = 0
    for i in range(len(actions)):
        row = rows[i]
        if mode == NEXT_STEP and row[OVER]:
            _begin(procedural, row)
            flags[0, i] = flags[1, i] = False
        else:
            flags[0, i] = _move(actions[i], row)
            flags[1, i] = not flags[0, i] and row[STEPS] >= TIME_LIMIT
            _visit(row)
        stats[1, 0, i], stats[1, 1, i], stats[1, 2, i] = row[STATES], row[VISITED], row[STEPS]
        if flags[0, i] or flags[1, i]:
            ended += 1
            row[OVER] = 1
            if mode == SAME_STEP:
                observe(procedural, noise, image, row, last[i])
                _begin(procedural, row)
        stats[0, 0, i], stats[0, 1, i], stats[0, 2, i] = row[STATES], row[VISITED], row[STEPS]
        observe(procedural, noise, image, row, obs[i])
    return ended
