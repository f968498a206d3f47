"""`mmrs gridworld`: the two trajectories of Eq. (12) and their fairness, in exact fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from mmrs.errors import InputError, did_you_mean, require_packages
from mmrs.functional.fairness import visit_curve
from mmrs.report.rendering import COLORS, new_figure, save_figure
from mmrs.storage.files import output_folder

SIZE = 4
MOVES = {"U": (0, -1), "D": (0, 1), "L": (-1, 0), "R": (1, 0)}
# Unstated: the walks stand only in a picture. Many give the fractions of Eq. (12); these are ours.
TRAJECTORIES = {"a": "DDDRUUU", "b": "DDRUDDL"}
TITLES = {"a": "(a) eight different cells", "b": "(b) one cell visited again"}
GridCell = tuple[int, int]
"""Column and row, both from 0."""


@dataclass(frozen=True)
class GridWorldConfig:
    """Print the two walks of Eq. (12) with their fairness, and draw them."""

    out: Path = Path("runs/gridworld")
    """Folder for the picture (PNG and SVG)."""


@dataclass(frozen=True)
class Trajectory:
    """A walk on the grid and Jain's index after each visit."""

    actions: str
    """One letter per step: U, D, L or R."""
    cells: tuple[GridCell, ...]
    """Visited cells, the start first; a step into a wall stays in place."""
    fairness: tuple[Fraction, ...]
    """J after each visit, Eq. (10), exact."""

    @property
    def trend(self) -> tuple[int, ...]:
        """+1, 0 or -1 for each step: whether J rose, stayed or fell."""
        return tuple((b > a) - (b < a) for a, b in zip(self.fairness, self.fairness[1:], strict=False))


def trajectory(actions: str, size: int = SIZE) -> Trajectory:
    """Walk `actions` from the top left corner of a size x size grid; s_0 and bumps count as visits."""
    if size < 2:
        raise InputError(f"A grid needs at least 2 cells per side, got {size}.")
    cells = [(0, 0)]
    for action in actions:
        if action not in MOVES:
            raise InputError(f"Unknown action {action!r}. {did_you_mean(action, MOVES)}")
        (column, row), (dx, dy) = cells[-1], MOVES[action]
        cells.append((min(max(column + dx, 0), size - 1), min(max(row + dy, 0), size - 1)))
    labels = torch.tensor([[row * size + column for column, row in cells]])
    curve = visit_curve(labels)
    visits, squares = curve.visits[0].tolist(), curve.square_sum[0].tolist()
    # Eq. (10) on integer counts: without rounding.
    fairness = tuple(Fraction(n * n, size * size * q) for n, q in zip(visits, squares, strict=True))
    return Trajectory(actions, tuple(cells), fairness)


def paper_trajectories() -> dict[str, Trajectory]:
    """Both trajectories of Eq. (12)."""
    return {name: trajectory(actions) for name, actions in TRAJECTORIES.items()}


def format_fraction(value: Fraction, states: int = SIZE * SIZE) -> str:
    """A fraction as Eq. (12) has it: with the number of states as denominator if possible, else in lowest terms."""
    over_states = value * states
    return f"{over_states.numerator}/{states}" if over_states.denominator == 1 else str(value)


def fairness_labels(walk: Trajectory) -> list[str]:
    """The fractions of a walk; an arrow before each but the first shows the direction of the change."""
    signs = {1: "↗", 0: "→", -1: "↘"}
    arrows = ["", *(f"{signs[t]} " for t in walk.trend)]
    return [arrow + format_fraction(j) for arrow, j in zip(arrows, walk.fairness, strict=True)]


def gridworld(config: GridWorldConfig) -> None:
    """Print both sequences of Eq. (12) with their arrows and draw the trajectories."""
    require_packages(matplotlib="report")
    folder = output_folder(config.out)
    walks = paper_trajectories()
    drawn = [(TITLES[name], walk.cells, fairness_labels(walk)) for name, walk in walks.items()]
    paths = draw_gridworld(drawn, SIZE, folder)
    console = Console()
    console.print(_table(walks))
    console.print("J over 16 states, the start counted. It falls once: step 5 of (b) enters a cell again.")
    console.print("Pictures: " + ", ".join(map(str, paths)), soft_wrap=True)


def draw_gridworld(
    walks: Sequence[tuple[str, Sequence[GridCell], Sequence[str]]], size: int, folder: Path
) -> list[Path]:
    """Draw walks side by side; each has a title, its visited cells, and one label of J per visit."""
    figure = new_figure(4.6 * len(walks), 5.7)
    for panel, (title, cells, labels) in enumerate(walks):
        axes = figure.add_subplot(1, len(walks), panel + 1)
        _draw_grid(axes, size)
        _draw_walk(axes, cells)
        axes.set_title(title, fontsize=12)
        axes.text(0.5, -0.03, _wrapped(labels), transform=axes.transAxes, ha="center", va="top", fontsize=10)
    return save_figure(figure, folder, "gridworld")


def _table(walks: dict[str, Trajectory]) -> Table:
    table = Table(title="Jain's fairness index along two walks on a 4 x 4 grid, Eq. (12)")
    table.add_column("visit", justify="right")
    for name, walk in walks.items():
        table.add_column(f"({name}) {walk.actions}: column, row", justify="center")
        table.add_column(f"({name}) J", justify="right")
    rows = [zip(walk.cells, fairness_labels(walk), strict=True) for walk in walks.values()]
    for visit, entries in enumerate(zip(*rows, strict=True)):
        table.add_row(str(visit), *(text for (c, r), j in entries for text in (f"{c}, {r}", j)))
    return table


def _draw_grid(axes: Any, size: int) -> None:
    for line in range(size + 1):
        axes.plot([0, size], [line, line], color="#9a9a9a", linewidth=0.8)
        axes.plot([line, line], [0, size], color="#9a9a9a", linewidth=0.8)
    axes.set(xlim=(-0.05, size + 0.05), ylim=(size + 0.05, -0.05), aspect="equal")
    axes.axis("off")


def _draw_walk(axes: Any, cells: Sequence[GridCell]) -> None:
    """Draw numbered arrows, a black start and a red end; two steps over the same edge are curved."""
    seen: set[GridCell] = set()
    steps = list(pairwise(cells))
    for index, (start, end) in enumerate(steps, start=1):
        seen.add(start)
        known = end in seen
        color = COLORS[0] if known else COLORS[1]
        a, b = ((c + 0.5, r + 0.5) for c, r in (start, end))
        style = {"arrowstyle": "-|>", "color": color, "linewidth": 1.8, "shrinkA": 7, "shrinkB": 7}
        bend = "arc3,rad=0.35" if (end, start) in steps else "arc3,rad=0"
        axes.annotate("", xy=b, xytext=a, arrowprops=style | {"connectionstyle": bend})
        offset = 0.27 if bend != "arc3,rad=0" else 0.13
        x = (a[0] + b[0]) / 2 + offset * (a[1] - b[1])
        y = (a[1] + b[1]) / 2 + offset * (b[0] - a[0])
        axes.text(x, y, str(index), color=color, ha="center", va="center", fontsize=10)
    for (column, row), color in ((cells[0], "black"), (cells[-1], "#d02020")):
        axes.plot(column + 0.5, row + 0.5, "o", color=color, markersize=9)


def _wrapped(labels: Sequence[str]) -> str:
    half = (len(labels) + 1) // 2
    return " ".join(labels[:half]) + "\n" + " ".join(labels[half:])
