"""Gymnasium environments `Maze2D`, with the rewards of gym-maze, and `GridWorld`, the paper's 4x4 grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mmrs.envs.maze.maze import GOALS, START, Maze, build, check_size, checked_action, generate
from mmrs.envs.maze.render import show
from mmrs.errors import InputError, did_you_mean

Step = tuple[int, float, bool, bool, dict[str, Any]]


class Maze2D(gym.Env[Any, Any]):
    """Walk from the top left of a maze to the bottom right; actions N, S, E, W; a bump stays in place.

    A step costs 0.1/S; entering a terminal goal pays 1 instead and ends the episode. An inert goal is a cell like any
    other, and an episode then ends only at the time limit.

    Args:
        size: M; the maze has M x M cells.
        kind: `perfect`, or `plus` with loops and portals.
        seed: seed of the maze; `reset(seed=...)` never changes it.
        goal: `terminal` or `inert`.
        time_limit: steps until truncation; by default 10 M².
        maze: a maze or the path of a maze file; `size`, `kind` and `seed` are then ignored.
        render_mode: `ansi` or `rgb_array`.
    """

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 10}  # noqa: RUF012  Gymnasium declares it so

    def __init__(
        self,
        size: int = 10,
        kind: str = "plus",
        seed: int = 0,
        goal: str = "terminal",
        time_limit: int | None = None,
        maze: Maze | str | Path | None = None,
        render_mode: str | None = None,
    ) -> None:
        if goal not in GOALS:
            raise InputError(f"unknown goal {goal!r}. {did_you_mean(goal, GOALS)}")
        if time_limit is not None and time_limit < 1:
            raise InputError(f"time_limit must be at least 1 step, not {time_limit}")
        if isinstance(maze, str | Path):
            maze = Maze.load(maze)
        self.maze = generate(size, kind, seed, goal) if maze is None else maze
        self.goal_ends = goal == "terminal"
        self.time_limit = 10 * self.maze.states if time_limit is None else time_limit
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Discrete(self.maze.states)
        self.action_space = gym.spaces.Discrete(4)
        self.visits: NDArray[np.int64] = np.zeros(self.maze.states, np.int64)
        """Visits to each cell since the environment was made, over all its episodes."""
        self._next: list[list[int]] = self.maze.next_state.tolist()
        self._state = START
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start at the top left. `options={"clear_visits": True}` also clears the heat map."""
        super().reset(seed=seed)
        if options and options.get("clear_visits"):
            self.visits[:] = 0
        self._state, self._steps = START, 0
        self.visits[START] += 1
        return START, {}

    def step(self, action: int) -> Step:
        """Move one cell N, S, E or W, and through a portal if there is one."""
        self._state = state = self._next[self._state][checked_action(action)]
        self._steps += 1
        self.visits[state] += 1
        terminated = self.goal_ends and state == self.maze.goal
        reward = 1.0 if terminated else -0.1 / self.maze.states
        return state, reward, terminated, not terminated and self._steps >= self.time_limit, {}

    def render(self) -> Any:
        """Text (`ansi`) or a picture ``[H, W, 3]`` (`rgb_array`) of walls, portals, agent and visits."""
        return show(self.render_mode, self.maze, self.visits, self._state)


class GridWorld(gym.Env[Any, Any]):
    """The paper's GridWorld: no walls inside, no reward, every cell worth the same.

    State = row * size + column; actions N, S, E, W. A step against the rim stays in place and counts as a visit:
    the second trajectory of the paper's example can be had with a bump as its revisit. Episodes start top left and
    never end by themselves.
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
        """Start at the top left, with no visit but this one."""
        super().reset(seed=seed)
        self._state = 0
        self.visits[:] = 0
        self.visits[0] = 1
        return 0, {}

    def step(self, action: int) -> Step:
        """Move one cell; the reward is always 0."""
        self._state = int(self.maze.next_state[self._state, checked_action(action)])
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
