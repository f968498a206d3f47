"""The room worlds as plain Gymnasium environments: the reference for the compiled ones."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from mmrs.envs.base import Values
from mmrs.envs.maze.maze import checked_action
from mmrs.envs.rooms.maps import (
    BIT_WIDTH,
    CELLS,
    FLOOR,
    GOAL,
    MAP_BLOCK,
    NO_ACTION,
    NO_KEY,
    NOISE_ACTION,
    NOISE_BITS,
    PIXELS,
    SHADES,
    SIDE,
    START,
    TIME_LIMIT,
    VIEW,
    VIEW_BLOCK,
    WALL,
    Stream,
    World,
    key_rooms,
    move,
    multi_rooms,
    reachable,
    world_named,
)
from mmrs.envs.rooms.render import draw
from mmrs.errors import InputError, did_you_mean

OBS_TYPES = ("features", "image")


def observation_space(world: World, obs_type: str) -> spaces.Box:
    """Space of one environment: features are float32 from 0 to 1, an image is one gray channel of bytes."""
    if obs_type not in OBS_TYPES:
        raise InputError(f"unknown obs_type {obs_type!r}. {did_you_mean(str(obs_type), OBS_TYPES)}")
    if obs_type == "image":
        return spaces.Box(0, 255, (PIXELS, PIXELS, 1), np.uint8)
    return spaces.Box(0.0, 1.0, (world.features,), np.float32)


class RoomsEnv(gym.Env[Any, Any]):
    """Walk through nine rooms to a goal; actions N, S, E, W; a bump stays in place; 200 steps are the limit.

    Reaching the goal pays 1 and ends the episode; nothing else pays. A true state is the cell and, on the fixed map,
    whether the agent has the key and the door is open; `info` counts them:

    - ``states``, ``reachable``: visited in this episode, and reachable in it at all;
    - ``visited``, ``coverage``: visited since the last seeded reset, and their share of those of all episodes;
    - ``success``: whether the goal was reached by this step.

    Args:
        world: `KeyRooms` (fixed map; a key opens a door), `MultiRooms` (a new map each episode, seen through a window
            of 5x5 cells around the agent) or `NoisyTV` (KeyRooms with a fifth action that redraws 16 random bits).
        obs_type: `features` (float32) or `image` (uint8, 84x84, gray).
        render_mode: `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  Gymnasium declares it so

    def __init__(self, world: str = "KeyRooms", obs_type: str = "features", render_mode: str | None = None) -> None:
        self.world, self.obs_type, self.render_mode = world_named(world), obs_type, render_mode
        self.observation_space = observation_space(self.world, obs_type)
        self.action_space = spaces.Discrete(len(self.world.actions))
        self.visits: Values = np.zeros(self.world.phases * CELLS, np.int64)
        """Visits to each true state since the last seeded reset."""
        self._stream: Stream | None = None
        self._over = True

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002  Gymnasium's signature
    ) -> tuple[Values, dict[str, Any]]:
        """Start an episode. A seeded reset forgets everything before it, visits included."""
        super().reset(seed=seed)
        if seed is not None or self._stream is None:
            self._stream = Stream(int(self.np_random.integers(1 << 63)))
            self.visits[:] = 0
        self.grid = multi_rooms(self._stream) if self.world.procedural else key_rooms()
        self._cell, self._phase, self._steps, self._last, self._noise = START, NO_KEY, 0, NO_ACTION, 0
        self._seen: set[int] = set()
        self._over = False
        self._visit()
        return self._observe(), self._info(success=False)

    def step(self, action: int) -> tuple[Values, float, bool, bool, dict[str, Any]]:
        """Move one cell, or redraw the noise."""
        if self._over or self._stream is None:
            raise InputError("the episode is over, or has not begun: call reset() first.")
        action = checked_action(action, self.world.actions)
        if action == NOISE_ACTION:
            self._noise = self._stream.bits() >> 64 - NOISE_BITS
        else:
            self._cell, self._phase = move(self.grid, self._cell, self._phase, action)
        self._steps, self._last = self._steps + 1, action
        success = bool(self.grid[self._cell] == GOAL)
        if not success:
            self.grid[self._cell] = FLOOR  # a key is taken, a door stays open
        self._visit()
        truncated = not success and self._steps >= TIME_LIMIT
        self._over = success or truncated
        return self._observe(), float(success), success, truncated, self._info(success)

    def _visit(self) -> None:
        state = self._phase * CELLS + self._cell
        self._seen.add(state)
        self.visits[state] += 1

    def _info(self, success: bool) -> dict[str, Any]:
        once, ever = reachable(self.world)
        visited = int(np.count_nonzero(self.visits))
        return {
            "success": success,
            "states": len(self._seen),
            "reachable": once,
            "visited": visited,
            "coverage": visited / ever,
        }

    # --- observations and pictures ----------------------------------------------------------------------------------

    def _observe(self) -> Values:
        image = self.obs_type == "image"
        if self.world.procedural:
            return self._view_image() if image else self._view_features()
        gray = SHADES[self.grid]
        gray[self._cell] = 1.0
        bits = (self._noise >> np.arange(NOISE_BITS) & 1).astype(np.float32)
        if not image:
            return np.concatenate([gray, bits]) if self.world.noise else gray
        picture = _blocks(gray.reshape(SIDE, SIDE), MAP_BLOCK)
        if self.world.noise:
            picture[MAP_BLOCK * SIDE :, : BIT_WIDTH * NOISE_BITS, 0] = np.repeat(bits * 255, BIT_WIDTH)
        return picture

    def _view(self) -> tuple[Values, Values]:
        """Walls and goal around the agent, each ``[5, 5]``; outside the map everything is wall."""
        half = VIEW // 2
        padded = np.pad(self.grid.reshape(SIDE, SIDE), half, constant_values=WALL)
        row, column = divmod(self._cell, SIDE)
        window = padded[row : row + VIEW, column : column + VIEW]
        return (window == WALL).astype(np.float32), (window == GOAL).astype(np.float32)

    def _view_features(self) -> Values:
        walls, goal = self._view()
        return np.concatenate([walls.ravel(), goal.ravel(), np.eye(NO_ACTION + 1, dtype=np.float32)[self._last]])

    def _view_image(self) -> Values:
        """The window in blocks of pixels, and below it a block for the last action."""
        walls, goal = self._view()
        gray = SHADES[WALL] * walls + SHADES[GOAL] * goal
        gray[VIEW // 2, VIEW // 2] = 1.0
        picture = _blocks(gray, VIEW_BLOCK)
        picture[VIEW_BLOCK * VIEW :, VIEW_BLOCK * self._last : VIEW_BLOCK * (self._last + 1)] = 255
        return picture

    def render(self) -> Any:
        """A picture ``[H, W, 3]`` of the whole map, the trail of this episode and the agent."""
        if self.render_mode != "rgb_array":
            return None
        seen = np.zeros(CELLS, bool)
        seen[[state % CELLS for state in self._seen]] = True
        return draw(self.world, self.grid, self._cell, self._phase, seen, self._noise)


def _blocks(gray: Values, size: int) -> Values:
    """Gray levels ``[S, S]`` as blocks of pixels in the top left of an image."""
    picture = np.zeros((PIXELS, PIXELS, 1), np.uint8)
    side = size * len(gray)
    picture[:side, :side, 0] = np.kron((gray * 255).astype(np.uint8), np.ones((size, size), np.uint8))
    return picture
