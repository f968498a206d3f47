"""Pictures of a maze in text and in pixels: walls, portals, start, goal, agent, and visits as a heat map."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.maze.maze import START, Maze

SHADES = " .:*#"
"""Text shades from never visited to most visited."""
COLD, HOT = np.array([255, 247, 214]), np.array([190, 40, 20])
EMPTY, WALL, AGENT = (255, 255, 255), (30, 30, 40), (20, 90, 200)
START_COLOR, GOAL_COLOR = (40, 160, 70), (200, 30, 120)
# Okabe and Ito's colors for color-blind readers; mazes with more than six portals repeat them.
PORTAL_COLORS = ((86, 180, 233), (230, 159, 0), (0, 158, 115), (204, 121, 167), (0, 114, 178), (213, 94, 0))
Picture = NDArray[np.uint8]


def show(mode: str | None, maze: Maze, visits: NDArray[np.int64], agent: int) -> str | Picture | None:
    """Result of `render`: text (`ansi`), a picture ``[H, W, 3]`` (`rgb_array`) or None."""
    if mode == "ansi":
        return write(maze, visits, agent)
    if mode == "rgb_array":
        return draw(maze, visits, agent)
    return None


def heat(visits: NDArray[np.int64]) -> NDArray[np.float64]:
    """Log of visits, scaled from 0 (none) to 1 (most). Logarithms, because early on one cell has nearly all visits."""
    logs = np.log1p(visits.astype(np.float64))
    return np.asarray(logs / max(float(logs.max()), 1e-12))


def write(maze: Maze, visits: NDArray[np.int64], agent: int) -> str:
    """The maze as text: `@` agent, `S` start, `G` goal, letters for portals, darker characters for more visits."""
    shade = np.ceil(heat(visits) * (len(SHADES) - 1)).astype(int)
    signs = [SHADES[level] for level in shade]
    for number, pair in enumerate(maze.portals.tolist()):
        for cell in pair:
            signs[cell] = chr(ord("a") + number % 26)
    signs[START], signs[maze.goal] = "S", "G"
    signs[agent] = "@"
    lines = ["+" + "---+" * maze.size]
    for row in range(maze.size):
        cells = range(row * maze.size, (row + 1) * maze.size)
        lines.append("|" + "".join(f" {signs[c]} {'|' if maze.walls[c, 2] else ' '}" for c in cells))
        lines.append("+" + "".join(("---" if maze.walls[c, 1] else "   ") + "+" for c in cells))
    return "\n".join(lines) + "\n"


def draw(maze: Maze, visits: NDArray[np.int64], agent: int, pixels: int = 640) -> Picture:
    """The maze as a picture ``[H, W, 3]`` with sides of about `pixels`."""
    side = max(8, pixels // maze.size)
    shares = heat(visits).reshape(maze.size, maze.size, 1)
    colors = np.where(shares > 0, COLD + shares * (HOT - COLD), EMPTY).astype(np.uint8)
    picture: Picture = np.repeat(np.repeat(colors, side, 0), side, 1)
    _fill(picture, maze, START, START_COLOR, 0.3)
    _fill(picture, maze, maze.goal, GOAL_COLOR, 0.3)
    for number, pair in enumerate(maze.portals.tolist()):
        for cell in pair:
            _fill(picture, maze, cell, PORTAL_COLORS[number % len(PORTAL_COLORS)], 0.25)
    _disc(picture, maze, agent, side)
    _walls(picture, maze, side)
    return picture


def _fill(picture: Picture, maze: Maze, cell: int, color: tuple[int, int, int], margin: float) -> None:
    """Draw a square in the middle of a cell; the heat map stays visible around it."""
    side = picture.shape[0] // maze.size
    row, column, inset = cell // maze.size * side, cell % maze.size * side, int(margin * side)
    picture[row + inset : row + side - inset, column + inset : column + side - inset] = color


def _disc(picture: Picture, maze: Maze, cell: int, side: int) -> None:
    row, column = cell // maze.size * side, cell % maze.size * side
    y, x = np.mgrid[:side, :side] - (side - 1) / 2
    block = picture[row : row + side, column : column + side]
    block[x * x + y * y <= (0.3 * side) ** 2] = AGENT


def _walls(picture: Picture, maze: Maze, side: int) -> None:
    """Draw dark lines on the inner edge of each walled side; a wall between cells is two lines thick."""
    thick = max(1, side // 16)
    blocks = picture.reshape(maze.size, side, maze.size, side, 3).swapaxes(1, 2)
    edges = (slice(0, thick), slice(-thick, None), slice(-thick, None), slice(0, thick))
    for direction, edge in enumerate(edges):
        walled = np.flatnonzero(maze.walls[:, direction])
        for cell in walled.tolist():
            block = blocks[cell // maze.size, cell % maze.size]
            if direction < 2:
                block[edge] = WALL
            else:
                block[:, edge] = WALL
