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

from mmrs.errors import InputError, near_matches
from mmrs.functional.fairness import visit_curve
from mmrs.report.rendering import COLOURS, new_figure, save_figure
from mmrs.storage.files import output_folder

SIZE = 4
MOVES = {"U": (0, -1), "D": (0, 1), "L": (-1, 0), "R": (1, 0)}
# Unstated: the walks stand only in a picture. Many give the fractions of Eq. (12); these are ours.
TRAJECTORIES = {"a": "DDDRUUU", "b": "DDRUDDL"}
TITLES = {"a": "(a) eight different cells", "b": "(b) one cell visited again"}


@dataclass(frozen=True)
class GridWorldConfig:
    """What `mmrs gridworld` does."""

    out: Path = Path("runs/gridworld")
    """Folder for the picture (PNG and SVG)."""


@dataclass(frozen=True)
class Trajectory:
    """A walk on the grid and what Jain's index says after each visit."""

    actions: str
    """One letter a step: U, D, L or R."""
    cells: tuple[tuple[int, int], ...]
    """Visited (column, row), the start first; a step into the wall stays."""
    fairness: tuple[Fraction, ...]
    """J after each visit, Eq. (10), exact."""

    @property
    def trend(self) -> tuple[int, ...]:
        """+1, 0 or -1 for each step: whether J rose, stayed or fell."""
        return tuple((b > a) - (b < a) for a, b in zip(self.fairness, self.fairness[1:], strict=False))


def trajectory(actions: str, size: int = SIZE) -> Trajectory:
    """Walk `actions` from the top left corner of a size x size grid; s_0 and bumps count as visits."""
    if size < 2:
        raise InputError(f"A grid needs at least 2 cells a side, got {size}.")
    cells = [(0, 0)]
    for action in actions:
        if action not in MOVES:
            raise InputError(f"Unknown action {action!r}. {near_matches(action, MOVES)}")
        (column, row), (dx, dy) = cells[-1], MOVES[action]
        cells.append((min(max(column + dx, 0), size - 1), min(max(row + dy, 0), size - 1)))
    labels = torch.tensor([[row * size + column for column, row in cells]])
    curve = visit_curve(labels)
    visits, squares = curve.visits[0].tolist(), curve.square_sum[0].tolist()
    # Eq. (10) on the integer counts: no rounding enters.
    fairness = tuple(Fraction(n * n, size * size * q) for n, q in zip(visits, squares, strict=True))
    return Trajectory(actions, tuple(cells), fairness)


def sequences() -> dict[str, Trajectory]:
    """Both trajectories of Eq. (12)."""
    return {name: trajectory(actions) for name, actions in TRAJECTORIES.items()}


def written(value: Fraction, states: int = SIZE * SIZE) -> str:
    """A fraction as Eq. (12) writes it: over the number of states where it can be, else in lowest terms."""
    over_states = value * states
    return f"{over_states.numerator}/{states}" if over_states.denominator == 1 else str(value)


def arrows(walk: Trajectory) -> list[str]:
    """The fractions of a walk, each but the first led by the arrow of its step."""
    signs = {1: "↗", 0: "→", -1: "↘"}
    lead = ["", *(f"{signs[t]} " for t in walk.trend)]
    return [arrow + written(j) for arrow, j in zip(lead, walk.fairness, strict=True)]


def gridworld(config: GridWorldConfig) -> None:
    """Print both sequences of Eq. (12) with their arrows and draw the trajectories."""
    folder = output_folder(config.out)
    walks = sequences()
    drawn = [(TITLES[name], walk.cells, arrows(walk)) for name, walk in walks.items()]
    paths = draw_gridworld(drawn, SIZE, folder)
    console = Console()
    console.print(_table(walks))
    console.print("J over 16 states, the start counted. It falls once: step 5 of (b) re-enters a cell.")
    console.print("Pictures: " + ", ".join(map(str, paths)), soft_wrap=True)


def _table(walks: dict[str, Trajectory]) -> Table:
    table = Table(title="Jain's fairness index along two walks on a 4 x 4 grid, Eq. (12)")
    table.add_column("visit", justify="right")
    for name, walk in walks.items():
        table.add_column(f"({name}) {walk.actions}: column, row", justify="center")
        table.add_column(f"({name}) J", justify="right")
    rows = [zip(walk.cells, arrows(walk), strict=True) for walk in walks.values()]
    for visit, entries in enumerate(zip(*rows, strict=True)):
        table.add_row(str(visit), *(text for (c, r), j in entries for text in (f"{c}, {r}", j)))
    return table


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
