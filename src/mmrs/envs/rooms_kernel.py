"""The room worlds compiled: N environments a call, step for step what `rooms_env` does.

An environment is one row of whole numbers, so that saving and restoring it is copying them, and a call passes few
arrays: unpacking one costs as much as stepping an environment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.compiled import STRIDE, jit, mix
from mmrs.envs.rooms_map import (
    CELLS,
    DOOR,
    DOOR_CELL,
    FLOOR,
    GOAL,
    HAS_KEY,
    KEY,
    KEY_CELL,
    MOVES,
    NO_KEY,
    NOISE_ACTION,
    NOISE_BITS,
    OPEN,
    PAIRS,
    PASSAGES,
    PIXELS,
    ROOMS,
    SHADES,
    SIDE,
    START,
    TIME_LIMIT,
    VIEW,
    WALL,
    World,
    closed_rooms,
    key_rooms,
    middle,
)

Values = NDArray[Any]
NEXT_STEP, SAME_STEP, DISABLED = range(3)
"""When an environment that ended starts again: with the next step, at once, or when it is told to."""
CELL, PHASE, STEPS, EPISODE, STATES, VISITED, OVER, LAST, NOISE, STREAM, DRAWS, GRID = range(12)
"""First columns of an environment; `GRID` is where the map begins."""
_PAIRS, _PASSAGES, _MOVES = np.array(PAIRS), np.array(PASSAGES), np.array(MOVES)
_MIDDLES = np.array([middle(room) for room in range(ROOMS * ROOMS)])
_CLOSED, _KEY_ROOMS = closed_rooms(), key_rooms()
_SHADES, _BYTES = SHADES, (SHADES * 255).astype(np.uint8)
_KEY_BLOCK, _VIEW_BLOCK, _BIT_WIDTH = 6, 14, 5
_MAP_BLOCKS = np.kron(_BYTES[_KEY_ROOMS].reshape(SIDE, SIDE), np.ones((_KEY_BLOCK, _KEY_BLOCK), np.uint8))
_MARGIN = PIXELS - SIDE * _KEY_BLOCK
_KEY_IMAGE = np.pad(_MAP_BLOCKS, (0, _MARGIN)).ravel().view(np.int64)  # bytes copy far slower than words
_U32, _U48 = np.uint64(32), np.uint64(64 - NOISE_BITS)


def width(world: World) -> int:
    """Numbers an environment takes."""
    return GRID + CELLS + 2 * world.phases * CELLS


def parts(rows: Values) -> tuple[Values, Values, Values, Values]:
    """Views of environments ``[N, W]``: state ``[N, 11]``, what each cell holds ``[N, CELLS]``, and for each true state
    ``[N, S]`` the last episode that visited it and the visits since the last seeded reset.
    """
    half = GRID + CELLS + (rows.shape[1] - GRID - CELLS) // 2
    return rows[:, :GRID], rows[:, GRID : GRID + CELLS], rows[:, GRID + CELLS : half], rows[:, half:]


@jit
def _bits(row: Values) -> Any:
    """The next 64 random bits of an environment's stream."""
    row[DRAWS] += 1
    return mix(np.uint64(row[STREAM]) + np.uint64(row[DRAWS]) * STRIDE)


@jit
def _draw_map(row: Values, grid: Values) -> None:
    """`rooms_map.multi_rooms`."""
    order = np.arange(len(_PASSAGES))
    for i in range(len(order) - 1, 0, -1):
        j = np.int64((_bits(row) >> _U32) * np.uint64(i + 1) >> _U32)
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
    for place in range(rooms):
        room = queue[place]
        for other in range(rooms):
            if joined[room, other] and depth[other] < 0:
                depth[other] = depth[room] + 1
                queue[known] = other
                known += 1
    grid[_MIDDLES[np.argmax(depth)]] = GOAL


@jit
def _visit(row: Values) -> None:
    states = (len(row) - GRID - CELLS) // 2
    place = GRID + CELLS + row[PHASE] * CELLS + row[CELL]
    if row[place] != row[EPISODE]:
        row[place] = row[EPISODE]
        row[STATES] += 1
    if row[place + states] == 0:
        row[VISITED] += 1
    row[place + states] += 1


@jit
def _begin(procedural: bool, row: Values) -> None:
    """Start an episode."""
    grid = row[GRID : GRID + CELLS]
    if procedural:
        _draw_map(row, grid)
    else:
        grid[:] = _KEY_ROOMS
    row[CELL], row[PHASE], row[STEPS], row[STATES] = START, NO_KEY, 0, 0
    row[OVER], row[LAST], row[NOISE] = 0, 4, 0
    row[EPISODE] += 1
    _visit(row)


@jit
def _move(action: int, row: Values) -> bool:
    """Walk or redraw the noise; whether the goal was reached."""
    grid = row[GRID : GRID + CELLS]
    if action == NOISE_ACTION:
        row[NOISE] = np.int64(_bits(row) >> _U48)
    else:
        target = row[CELL] + _MOVES[action]
        held = grid[target]
        if held != WALL and (held != DOOR or row[PHASE] != NO_KEY):
            row[CELL] = target
            if held == KEY:
                row[PHASE] = HAS_KEY
            elif held == DOOR:
                row[PHASE] = OPEN
    row[STEPS] += 1
    row[LAST] = action
    if grid[row[CELL]] == GOAL:
        return True
    grid[row[CELL]] = FLOOR
    return False


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
        out[cell] = _SHADES[row[GRID + cell]]
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
def _observe(procedural: bool, noise: bool, image: bool, row: Values, out: Values) -> None:
    if procedural and image:
        _view_image(row, out)
    elif procedural:
        _view_features(row, out)
    elif image:
        _map_image(noise, row, out)
    else:
        _map_features(noise, row, out)


@jit
def reset(procedural: bool, noise: bool, image: bool, rows: Values, mask: Values, obs: Values) -> None:
    """Start an episode in the environments of the mask ``[N]``; observations ``[N, F]`` of all."""
    for i in range(len(mask)):
        if mask[i]:
            _begin(procedural, rows[i])
        _observe(procedural, noise, image, rows[i], obs[i])


@jit
def _first_wrong(noise: bool, mode: int, rows: Values, actions: Values) -> int:
    """The first environment that cannot be stepped, or N."""
    for i in range(len(actions)):
        if not 0 <= actions[i] < (5 if noise else 4) or (mode == DISABLED and rows[i, OVER]):
            return i
    return len(actions)


@jit
def step(
    procedural: bool, noise: bool, image: bool, mode: int,
    rows: Values, actions: Values, obs: Values, last: Values, flags: Values, told: Values,
) -> int:  # fmt: skip
    """Step all environments, or none where one of them cannot be stepped.

    Args:
        procedural: a new map each episode.
        noise: whether there is a fifth action.
        image: whether observations are images.
        mode: of the automatic reset.
        rows: ``[N, W]``, the environments; changed in place.
        actions: ``[N]`` int64.
        obs: ``[N, F]``, written.
        last: ``[N, F]``, written where an episode ended under SAME_STEP: its true last observation.
        flags: ``[2, N]`` bool, written: terminated (success, and a reward of 1) and truncated.
        told: ``[2, 3, N]`` int64, written: states of the episode, visited ever and steps of the episode; first as
            `obs` shows, then as the step left them, which differs where an episode ended under SAME_STEP.

    Returns:
        How many episodes ended; or -1 - i, if environment i has no such action or is over.
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
        told[1, 0, i], told[1, 1, i], told[1, 2, i] = row[STATES], row[VISITED], row[STEPS]
        if flags[0, i] or flags[1, i]:
            ended += 1
            row[OVER] = 1
            if mode == SAME_STEP:
                _observe(procedural, noise, image, row, last[i])
                _begin(procedural, row)
        told[0, 0, i], told[0, 1, i], told[0, 2, i] = row[STATES], row[VISITED], row[STEPS]
        _observe(procedural, noise, image, row, obs[i])
    return ended
