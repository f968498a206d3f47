"""Maze2D as a Gymnasium environment, with the rewards of gym-maze."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mmrs.envs.maze.maze import GOALS, START, Maze, checked_action, generate
from mmrs.envs.maze.render import show
from mmrs.errors import InputError, near_matches

Step = tuple[int, float, bool, bool, dict[str, Any]]


class Maze2D(gym.Env[Any, Any]):
    """Walk from the top left of a maze to the bottom right; actions N, S, E, W; a bump stays in place.

    A step costs 0.1/S; entering a terminal goal pays 1 instead and ends the episode. With an inert goal it is
    a cell like any other, and an episode ends at the time limit alone.

    Args:
        size: M; the maze has M x M cells.
        kind: `perfect`, or `plus` with loops and portals.
        seed: seed of the maze; `reset(seed=...)` never changes it.
        goal: `terminal` or `inert`.
        time_limit: steps until truncation; by default 10 M².
        maze: a maze, or the file of one, in place of a drawn one; `size`, `kind` and `seed` are then unused.
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
            raise InputError(f"unknown goal {goal!r}. {near_matches(goal, GOALS)}")
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
        self._next: list[list[int]] = self.maze.nxt.tolist()
        self._state = START
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Back to the top left. `options={"clear_visits": True}` empties the heat map too."""
        super().reset(seed=seed)
        if options and options.get("clear_visits"):
            self.visits[:] = 0
        self._state, self._steps = START, 0
        self.visits[START] += 1
        return START, {}

    def step(self, action: int) -> Step:
        """Walk one cell N, S, E or W, through a portal where one lies there."""
        self._state = state = self._next[self._state][checked_action(action)]
        self._steps += 1
        self.visits[state] += 1
        terminated = self.goal_ends and state == self.maze.goal
        reward = 1.0 if terminated else -0.1 / self.maze.states
        return state, reward, terminated, not terminated and self._steps >= self.time_limit, {}

    def render(self) -> Any:
        """Text (`ansi`) or a picture ``[H, W, 3]`` (`rgb_array`) of walls, portals, agent and visits."""
        return show(self.render_mode, self.maze, self.visits, self._state)
