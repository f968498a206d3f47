"""The figure of the maze experiment: a sample maze with its portals, and mean steps with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmrs.errors import InputError
from mmrs.paper.maze.shadow_types import CellData, ResultData, TraceData, label, portal_letter
from mmrs.report.rendering import COLOURS, new_figure, plain, save_figure


def draw_maze_figure(trace: TraceData, result: ResultData, folder: Path) -> list[Path]:
    """Draw (a) the maze of `trace` and (b) the bars of `result` as maze.png and maze.svg; returns the files."""
    if not result.cells:
        raise InputError("A result without rows has no bars to draw.")
    kinds = list(dict.fromkeys(cell.kind for cell in result.cells))
    figure = new_figure(5.0 + 4.2 * len(kinds), 4.8)
    panels = figure.subplots(1, 1 + len(kinds))
    draw_maze(panels[0], trace)
    panels[0].set_title(f"(a) a {trace.size} × {trace.size} {trace.kind} maze", fontsize=11)
    for letter, kind, axes in zip("bcdefgh", kinds, panels[1:], strict=False):
        draw_bars(axes, [cell for cell in result.cells if cell.kind == kind])
        axes.set_title(f"({letter}) {kind} mazes", fontsize=11)
    return save_figure(figure, folder, "maze")


def draw_maze(axes: Any, trace: TraceData) -> None:
    """Walls as lines, portals as lettered squares (twins share letter and colour), S and G."""
    size = trace.size
    for state, (north, _, _, west) in enumerate(trace.walls):
        row, column = divmod(state, size)
        if north:
            axes.plot([column, column + 1], [row, row], color="black", linewidth=1.2, solid_capstyle="round")
        if west:
            axes.plot([column, column], [row, row + 1], color="black", linewidth=1.2, solid_capstyle="round")
    # The rim is closed, so the last row and column need no look at their own walls.
    axes.plot([0, size, size], [size, size, 0], color="black", linewidth=1.2)
    marker = {"ha": "center", "va": "center", "fontsize": min(9.0, 150 / size), "fontweight": "bold"}
    for index, pair in enumerate(trace.portals):
        colour = COLOURS[index % len(COLOURS)]
        for state in pair:
            row, column = divmod(state, size)
            axes.fill([column, column + 1, column + 1, column], [row, row, row + 1, row + 1], color=colour, zorder=1)
            axes.text(column + 0.5, row + 0.5, portal_letter(index), color="white", **marker)
    for state, letter in ((trace.start, "S"), (trace.goal, "G")):
        row, column = divmod(state, size)
        axes.text(column + 0.5, row + 0.5, letter, color="black", **marker)
    axes.set(xlim=(-0.1, size + 0.1), ylim=(size + 0.1, -0.1), aspect="equal")
    axes.axis("off")


def draw_bars(axes: Any, cells: Sequence[CellData]) -> None:
    """Mean steps of each method by size, with 95 % intervals; hatched where some runs hit the cap."""
    sizes = list(dict.fromkeys(cell.size for cell in cells))
    methods = list(dict.fromkeys(cell.method for cell in cells))
    width = 0.8 / len(methods)
    for place, method in enumerate(methods):
        rows = [cell for cell in cells if cell.method == method]
        at = [sizes.index(cell.size) + (place - (len(methods) - 1) / 2) * width for cell in rows]
        means = [cell.mean for cell in rows]
        reach = [[c.mean - c.mean_low for c in rows], [c.mean_high - c.mean for c in rows]]
        colour = COLOURS[place % len(COLOURS)]
        axes.bar(
            at,
            means,
            width * 0.92,
            yerr=reach,
            capsize=3,
            color=colour,
            label=label(method),
            hatch=["//" if cell.censored else "" for cell in rows],
            edgecolor="white",
            error_kw={"linewidth": 1.1},
        )
    axes.set_xticks(range(len(sizes)), [f"{size} × {size}" for size in sizes])
    # Steps grow with the number of cells: on a linear axis the small mazes would vanish.
    axes.set(yscale="log", ylabel="steps until every cell was seen, mean and 95 % interval")
    if any(cell.censored for cell in cells):
        axes.set_xlabel("hatched: some runs hit the cap, the mean is a lower bound")
    plain(axes)
    axes.legend(fontsize=8, loc="upper left")
