"""What a page on several methods needs to know of them."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.rooms.maps import DOOR, GOAL, KEY, SIDE, START, WALL
from mmrs.errors import InputError
from mmrs.report.rendering import load_template
from mmrs.storage.files import write_whole

SUCCESS, RETURN, STATES, COVERAGE = "env/success", "game_return", "env/states", "env/coverage"
"""Columns of a run's record."""
COLUMNS = ("success", "first success at", "return", "true states an episode", "coverage")
"""Of the table."""


@dataclass(frozen=True)
class Run:
    """One seed of a method."""

    seed: int
    steps: list[int]
    """Of each row of the record."""
    columns: dict[str, list[float | None]]
    """Each a value a row; None before the first episode ended. Averages over the last hundred episodes."""

    def last(self, name: str) -> float | None:
        """The newest value of a column."""
        return next((value for value in reversed(self.columns.get(name, [])) if value is not None), None)

    @property
    def first_success(self) -> int | None:
        """Steps after which an episode first succeeded."""
        values = zip(self.steps, self.columns.get(SUCCESS, []), strict=False)
        return next((step for step, value in values if value), None)


@dataclass(frozen=True)
class Method:
    """A method and its runs."""

    name: str
    runs: tuple[Run, ...]
    visits: NDArray[np.int64] | None = None
    """``[13, 13]``: visits to each cell over the whole of all runs, where the world has cells."""

    def mean(self, name: str) -> float | None:
        """Of the newest values, over the runs that have one."""
        values = [value for run in self.runs if (value := run.last(name)) is not None]
        return float(np.mean(values)) if values else None

    def row(self) -> tuple[str, ...]:
        """The values of `COLUMNS`, as text."""
        return (
            _percent(self.mean(SUCCESS)),
            self._first_success(),
            _number(self.mean(RETURN), 2),
            _number(self.mean(STATES), 0),
            _percent(self.mean(COVERAGE)),
        )

    def _first_success(self) -> str:
        found = [run.first_success for run in self.runs if run.first_success is not None]
        if not found:
            return "never" if any(SUCCESS in run.columns for run in self.runs) else "–"
        share = f" ({len(found)}/{len(self.runs)} seeds)" if len(self.runs) > 1 else ""
        return f"{np.mean(found) / 1000:.0f}k{share}"


@dataclass(frozen=True)
class Comparison:
    """Several methods on one environment."""

    env: str
    steps: int
    """Of each run."""
    seeds: int
    methods: tuple[Method, ...]
    settings: dict[str, str] = field(default_factory=dict)
    """What all runs share, by name."""
    world: NDArray[np.uint8] | None = None
    """``[13, 13]``: what each cell of a room world holds at the start."""
    film: bytes | None = None
    """An mp4 file."""
    film_of: str = ""
    """The method it shows."""

    @property
    def title(self) -> str:
        """What was compared."""
        seeds = f", {self.seeds} seeds each" if self.seeds > 1 else ""
        return f"{self.env}, {self.steps:,} steps{seeds}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


CHARTS = (
    (SUCCESS, "Success", "Share of the last hundred episodes that reached the goal."),
    (RETURN, "Return", "Reward of the task alone, mean of the last hundred episodes."),
    (STATES, "True states an episode", "Distinct true states an episode visits, mean of the last hundred."),
    (COVERAGE, "Coverage", "Share of all true states that the run has seen so far."),
)
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 520, 240, 44, 26, 10
"""Of a chart, and the room for its labels."""
COLOURS = 7
"""The style sheet has so many."""
_SIGNS = {DOOR: "door", KEY: "key", GOAL: "goal"}


def render_comparison_page(comparison: Comparison) -> str:
    """The page as text."""
    if not comparison.methods:
        raise InputError("A comparison without methods shows nothing: name at least one.")
    film = base64.b64encode(comparison.film).decode() if comparison.film else ""
    return str(
        load_template("comparison.html.jinja").render(
            comparison=comparison,
            columns=COLUMNS,
            rows=[(method.name, method.row()) for method in comparison.methods],
            charts=[chart for spec in CHARTS if (chart := _chart(comparison, *spec))],
            maps=[heat for method in comparison.methods if (heat := _heat_map(comparison, method))],
            side=SIDE,
            colours=COLOURS,
            film=film,
        )
    )


def write_comparison_page(path: Path, comparison: Comparison) -> Path:
    """Write the page whole or not at all; returns where it is."""
    return write_whole(path, render_comparison_page(comparison))


def _chart(comparison: Comparison, column: str, title: str, about: str) -> dict[str, Any] | None:
    """Lines of every run, and where the axes are labelled; None where no run has the column."""
    drawn = [
        (place, method.name, run)
        for place, method in enumerate(comparison.methods)
        for run in method.runs
        if run.last(column) is not None
    ]
    if not drawn:
        return None
    values = [value for *_, run in drawn for value in run.columns[column] if value is not None]
    low, high = min(0.0, *values), max(values)
    high = 1.0 if column in (SUCCESS, COVERAGE) else high if high > low else low + 1.0

    def x(step: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 8) * step / comparison.steps, 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - low) / (high - low), 1)

    lines = [
        {
            "place": place, "name": name, "seed": run.seed,
            "points": " ".join(
                f"{x(step)},{y(value)}"
                for step, value in zip(run.steps, run.columns[column], strict=True) if value is not None
            ),
        }
        for place, name, run in drawn
    ]  # fmt: skip
    ticks = [(y(value), _tick(value, column)) for value in np.linspace(low, high, 5).tolist()]
    marks = [(x(step), f"{step / 1000:g}k") for step in np.linspace(0, comparison.steps, 5).tolist()]
    return {
        "title": title, "about": about, "lines": lines, "ticks": ticks, "marks": marks,
        "width": WIDTH, "height": HEIGHT, "left": LEFT, "base": HEIGHT - BOTTOM,
    }  # fmt: skip


def _tick(value: float, column: str) -> str:
    return f"{value:.0%}" if column in (SUCCESS, COVERAGE) else f"{value:.3g}"


def _heat_map(comparison: Comparison, method: Method) -> dict[str, Any] | None:
    """Squares of a method's map: walls, and cells by the logarithm of their visits."""
    if method.visits is None or comparison.world is None:
        return None
    heat = np.log1p(method.visits) / max(float(np.log1p(method.visits).max()), 1e-12)
    cells: list[tuple[int, int, float | None, str, str]] = []
    for (row, column), held in np.ndenumerate(comparison.world):
        if held == WALL and not method.visits[row, column]:
            cells.append((column, row, None, "wall", ""))
        else:
            sign = "start" if row * SIDE + column == START else _SIGNS.get(int(held), "")
            visits = int(method.visits[row, column])
            cells.append((column, row, round(float(heat[row, column]), 3), f"{visits:,} visits", sign))
    never = sum(cell[2] == 0 for cell in cells)
    return {"name": method.name, "place": comparison.methods.index(method), "cells": cells, "never": never}
