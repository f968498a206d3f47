"""The figure of the maze experiment: a sample maze with its portals, and mean steps with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmrs.errors import InputError
from mmrs.paper.maze.results import MazeResult, MazeRow, MazeTrace
from mmrs.paper.maze.text import label, portal_letter
from mmrs.report.rendering import COLORS, method_colors, new_figure, save_figure, style_axes


def draw_maze_figure(trace: MazeTrace, result: MazeResult, folder: Path) -> list[Path]:
    """Draw (a) the maze of `trace` and (b) the bars of `result` as maze.png and maze.svg; returns the files."""
    if not result.rows:
        raise InputError("A result without rows has no bars to draw.")
    kinds = list(dict.fromkeys(row.kind for row in result.rows))
    figure = new_figure(5.0 + 4.2 * len(kinds), 4.8)
    panels = figure.subplots(1, 1 + len(kinds))
    draw_maze(panels[0], trace)
    panels[0].set_title(f"(a) a {trace.size} × {trace.size} {trace.kind} maze", fontsize=11)
    for letter, kind, axes in zip("bcdefgh", kinds, panels[1:], strict=False):
        draw_bars(axes, [row for row in result.rows if row.kind == kind])
        axes.set_title(f"({letter}) {kind} mazes", fontsize=11)
    return save_figure(figure, folder, "maze")


def draw_maze(axes: Any, trace: MazeTrace) -> None:
    """Draw walls as lines, portals as squares (both ends with the same letter and color), and S and G."""
    size = trace.size
    for state, (north, _, _, west) in enumerate(trace.walls):
        row, column = divmod(state, size)
        if north:
            axes.plot([column, column + 1], [row, row], color="black", linewidth=1.2, solid_capstyle="round")
        if west:
            axes.plot([column, column], [row, row + 1], color="black", linewidth=1.2, solid_capstyle="round")
    # The rim is closed, so the walls of the last row and column need not be read.
    axes.plot([0, size, size], [size, size, 0], color="black", linewidth=1.2)
    marker = {"ha": "center", "va": "center", "fontsize": min(9.0, 150 / size), "fontweight": "bold"}
    for index, pair in enumerate(trace.portals):
        color = COLORS[index % len(COLORS)]
        for state in pair:
            row, column = divmod(state, size)
            axes.fill([column, column + 1, column + 1, column], [row, row, row + 1, row + 1], color=color, zorder=1)
            axes.text(column + 0.5, row + 0.5, portal_letter(index), color="white", **marker)
    for state, letter in ((trace.start, "S"), (trace.goal, "G")):
        row, column = divmod(state, size)
        axes.text(column + 0.5, row + 0.5, letter, color="black", **marker)
    axes.set(xlim=(-0.1, size + 0.1), ylim=(size + 0.1, -0.1), aspect="equal")
    axes.axis("off")


def draw_bars(axes: Any, rows: Sequence[MazeRow]) -> None:
    """Draw mean steps of each method by size, with 95 % intervals; hatched where some runs hit the cap."""
    sizes = list(dict.fromkeys(row.size for row in rows))
    methods = list(dict.fromkeys(row.method for row in rows))
    colors = method_colors(methods)
    width = 0.8 / len(methods)
    for index, method in enumerate(methods):
        own = [row for row in rows if row.method == method]
        at = [sizes.index(row.size) + (index - (len(methods) - 1) / 2) * width for row in own]
        means = [row.mean for row in own]
        error = [[row.mean - row.mean_low for row in own], [row.mean_high - row.mean for row in own]]
        color = COLORS[colors[method]]
        axes.bar(
            at,
            means,
            width * 0.92,
            yerr=error,
            capsize=3,
            color=color,
            label=label(method),
            hatch=["//" if row.censored else "" for row in own],
            edgecolor="white",
            error_kw={"linewidth": 1.1},
        )
    axes.set_xticks(range(len(sizes)), [f"{size} × {size}" for size in sizes])
    # Steps grow with the number of cells: on a linear axis the bars of small mazes would be invisible.
    axes.set(yscale="log", ylabel="steps until every cell was seen, mean and 95 % interval")
    if any(row.censored for row in rows):
        axes.set_xlabel("hatched: some runs hit the cap, the mean is a lower bound")
    style_axes(axes)
    axes.legend(fontsize=8, loc="upper left")
