"""The page that compares methods on one environment: one self-contained HTML file, without network requests."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.rooms.maps import DOOR, GOAL, KEY, SIDE, START, WALL
from mmrs.errors import InputError
from mmrs.report.rendering import load_template, method_colors
from mmrs.storage.files import write_atomic

SUCCESS, RETURN, STATES, COVERAGE = "env/success", "game_return", "env/states", "env/coverage"
"""Metrics of a run's record."""
COLUMNS = ("success", "first success at", "return", "true states per episode", "coverage")
"""Columns of the table, after the method's name."""
CHARTS = (
    (SUCCESS, "Success", "Share of the last hundred episodes that reached the goal."),
    (RETURN, "Return", "Reward of the task alone, mean of the last hundred episodes."),
    (STATES, "True states per episode", "Distinct true states in an episode, mean of the last hundred."),
    (COVERAGE, "Coverage", "Share of all true states that the run has seen so far."),
)
"""Metric, title and description of each chart."""
_SIGNS = {DOOR: "door", KEY: "key", GOAL: "goal"}


@dataclass(frozen=True)
class Run:
    """One seed of a method."""

    seed: int
    steps: list[int]
    """Step of each row of the record."""
    columns: dict[str, list[float | None]]
    """Each metric's value per row, averaged over the last hundred episodes; None before the first episode ended."""

    def last(self, name: str) -> float | None:
        """The newest value of a metric."""
        return next((value for value in reversed(self.columns.get(name, [])) if value is not None), None)

    @property
    def first_success(self) -> int | None:
        """Step at which an episode first succeeded."""
        values = zip(self.steps, self.columns.get(SUCCESS, []), strict=False)
        return next((step for step, value in values if value), None)


@dataclass(frozen=True)
class Method:
    """A method and its runs."""

    name: str
    runs: tuple[Run, ...]
    visits: NDArray[np.int64] | None = None
    """``[13, 13]``: visits to each cell, summed over all runs; None in environments without cells."""

    def mean(self, name: str) -> float | None:
        """Mean of a metric's newest values over the runs that have one."""
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
    """Steps of each run."""
    seeds: int
    methods: tuple[Method, ...]
    settings: dict[str, str] = field(default_factory=dict)
    """Settings that all runs share, by name."""
    world: NDArray[np.uint8] | None = None
    """``[13, 13]``: what each cell of a room world holds at the start."""
    video: bytes | None = None
    """An mp4 file."""
    video_of: str = ""
    """Name of the method in the video."""

    @property
    def title(self) -> str:
        """Environment, steps and seeds."""
        seeds = f", {self.seeds} seeds each" if self.seeds > 1 else ""
        return f"{self.env}, {self.steps:,} steps{seeds}"

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Titles, and a row per method: the columns of `COLUMNS` that some method has a value for."""
        rows = [method.row() for method in self.methods]
        kept = [i for i, title in enumerate(COLUMNS) if title == "return" or any(row[i] != "–" for row in rows)]
        return tuple(COLUMNS[i] for i in kept), [tuple(row[i] for i in kept) for row in rows]


def render_comparison_page(comparison: Comparison) -> str:
    """The page as text."""
    if not comparison.methods:
        raise InputError("A comparison without methods shows nothing: name at least one.")
    colors = method_colors(method.name for method in comparison.methods)
    columns, values = comparison.table()
    names = [method.name for method in comparison.methods]
    return str(
        load_template("comparison.html.jinja").render(
            comparison=comparison,
            columns=columns,
            rows=[(name, colors[name], row) for name, row in zip(names, values, strict=True)],
            charts=[chart for spec in CHARTS if (chart := _chart(comparison, colors, *spec))],
            maps=[heat for method in comparison.methods if (heat := _heat_map(comparison, method, colors))],
            side=SIDE,
            video=base64.b64encode(comparison.video).decode() if comparison.video else "",
        )
    )


def write_comparison_page(path: Path, comparison: Comparison) -> Path:
    """Write the page atomically; returns its path."""
    return write_atomic(path, render_comparison_page(comparison))


def _chart(
    comparison: Comparison, colors: dict[str, int], column: str, title: str, about: str
) -> dict[str, Any] | None:
    """A panel of `templates/chart.js` with a line per run, and its description; None where no run has the metric."""
    drawn = [(m.name, run) for m in comparison.methods for run in m.runs if run.last(column) is not None]
    if not drawn:
        return None
    values = [value for _, run in drawn for value in run.columns[column] if value is not None]
    low, high = min(0.0, *values), max(values)
    share = column in (SUCCESS, COVERAGE)
    steps = sorted({step for _, run in drawn for step in run.steps})
    panel = {
        "title": title,
        "x": steps,
        "xRange": [0, comparison.steps],
        "yRange": [0.0, 1.0] if share else [low, high if high > low else low + 1.0],
        "percent": share,
        "series": [_series(name, run, column, steps, colors[name], comparison.seeds) for name, run in drawn],
    }
    return {"title": title, "about": about, "panel": panel}


def _series(name: str, run: Run, column: str, steps: list[int], color: int, seeds: int) -> dict[str, Any]:
    known = dict(zip(run.steps, run.columns[column], strict=True))
    label = f"{name}, seed {run.seed}" if seeds > 1 else name
    return {"name": label, "color": color, "mean": [known.get(step) for step in steps]}


def _heat_map(comparison: Comparison, method: Method, colors: dict[str, int]) -> dict[str, Any] | None:
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
    return {"name": method.name, "color": colors[method.name], "cells": cells, "never": never}


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
