"""The picture of the two GridWorld trajectories, Eq. (12)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from mmrs.report.canvas import COLOURS, new_figure, save_figure

Cell = tuple[int, int]


def draw_gridworld(walks: Sequence[tuple[str, Sequence[Cell], Sequence[str]]], size: int, folder: Path) -> list[Path]:
    """Draw walks side by side, each a title, visited (column, row) cells and a label of J per visit."""
    figure = new_figure(4.6 * len(walks), 5.7)
    for panel, (title, cells, labels) in enumerate(walks):
        axes = figure.add_subplot(1, len(walks), panel + 1)
        _draw_grid(axes, size)
        _draw_walk(axes, cells)
        axes.set_title(title, fontsize=12)
        axes.text(0.5, -0.03, _wrapped(labels), transform=axes.transAxes, ha="center", va="top", fontsize=10)
    return save_figure(figure, folder, "gridworld")


def _draw_grid(axes: Any, size: int) -> None:
    for line in range(size + 1):
        axes.plot([0, size], [line, line], color="#9a9a9a", linewidth=0.8)
        axes.plot([line, line], [0, size], color="#9a9a9a", linewidth=0.8)
    axes.set(xlim=(-0.05, size + 0.05), ylim=(size + 0.05, -0.05), aspect="equal")
    axes.axis("off")


def _draw_walk(axes: Any, cells: Sequence[Cell]) -> None:
    """Arrows numbered by action, black start and red end; steps over the same edge bend apart."""
    seen: set[Cell] = set()
    steps = list(pairwise(cells))
    for index, (start, end) in enumerate(steps, start=1):
        seen.add(start)
        known = end in seen
        colour = COLOURS[0] if known else COLOURS[1]
        a, b = ((c + 0.5, r + 0.5) for c, r in (start, end))
        style = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.8, "shrinkA": 7, "shrinkB": 7}
        bend = "arc3,rad=0.35" if (end, start) in steps else "arc3,rad=0"
        axes.annotate("", xy=b, xytext=a, arrowprops=style | {"connectionstyle": bend})
        away = 0.27 if bend != "arc3,rad=0" else 0.13
        x = (a[0] + b[0]) / 2 + away * (a[1] - b[1])
        y = (a[1] + b[1]) / 2 + away * (b[0] - a[0])
        axes.text(x, y, str(index), color=colour, ha="center", va="center", fontsize=10)
    for (column, row), colour in ((cells[0], "black"), (cells[-1], "#d02020")):
        axes.plot(column + 0.5, row + 0.5, "o", color=colour, markersize=9)


def _wrapped(labels: Sequence[str]) -> str:
    half = (len(labels) + 1) // 2
    return " ".join(labels[:half]) + "\n" + " ".join(labels[half:])
