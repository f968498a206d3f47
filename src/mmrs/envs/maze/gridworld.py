"""The paper's 4x4 GridWorld: no walls inside, no reward, every cell worth the same."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mmrs.envs.maze.maze import Maze, build, check_size, checked_action
from mmrs.envs.maze.render import show


class GridWorld(gym.Env[Any, Any]):
    """An open square of cells; state = row * size + column; actions N, S, E, W.

    A step against the rim stays in place and is a visit like any other: the second trajectory of the paper's
    example can be had with a bump as its revisit. Episodes start top left and never end by themselves.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 4}  # noqa: RUF012  Gymnasium declares it so

    def __init__(self, size: int = 4, render_mode: str | None = None) -> None:
        check_size(size)
        self.maze = open_grid(size)
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Discrete(size * size)
        self.action_space = gym.spaces.Discrete(4)
        self.visits: NDArray[np.int64] = np.zeros(size * size, np.int64)
        """Visits to each cell in this episode."""
        self._state = 0

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[int, dict[str, Any]]:
        """Back to the top left, with no visit but this one."""
        super().reset(seed=seed)
        self._state = 0
        self.visits[:] = 0
        self.visits[0] = 1
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Walk one cell; the reward is always 0."""
        self._state = int(self.maze.nxt[self._state, checked_action(action)])
        self.visits[self._state] += 1
        return self._state, 0.0, False, False, {}

    def render(self) -> Any:
        """Text (`ansi`) or a picture ``[H, W, 3]`` (`rgb_array`) of the cells and their visits."""
        return show(self.render_mode, self.maze, self.visits, self._state)


def open_grid(size: int) -> Maze:
    """A maze without inner walls."""
    walls = np.zeros((size, size, 4), np.bool_)
    walls[0, :, 0] = walls[-1, :, 1] = walls[:, -1, 2] = walls[:, 0, 3] = True
    return build(walls.reshape(-1, 4), kind="open")
