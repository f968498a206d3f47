"""The page on which methods are compared: curves, heat maps and a film in one HTML file, which asks nobody."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np

from mmrs.envs.rooms_map import DOOR, GOAL, KEY, SIDE, START, WALL
from mmrs.errors import InputError
from mmrs.files import write_whole
from mmrs.report.comparison_data import COLUMNS, COVERAGE, RETURN, STATES, SUCCESS, Comparison, Method
from mmrs.report.template import load_template

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
