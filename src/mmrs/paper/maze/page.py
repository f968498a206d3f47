"""The page on which one watches agents explore a maze: a single HTML file without network requests."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mmrs.errors import InputError
from mmrs.paper.maze.options import METHODS, POTENTIALS, WalkOptions
from mmrs.paper.maze.results import MazeResult, MazeTrace, MethodTrace
from mmrs.paper.maze.text import CAVEATS, benchmark_row, label, portal_letter, verdict
from mmrs.report.rendering import load_template, method_colors
from mmrs.storage.files import write_atomic

LARGEST_MAZE = 255
"""States are packed as 16-bit numbers."""
SPEEDS = (1, 5, 20, 60, 200, 600, 2000, 6000)
PORTAL_COLORS = ("#0f766e", "#7c3aed", "#be185d", "#4d7c0f", "#92400e", "#1e40af", "#86198f", "#334155", "#15803d")
NUMBERS = ("lambda_g", "penalty_weight", "gamma_g", "gamma", "alpha", "epsilon", "episode_cap", "step_cap")
"""Settings of a run that are shown with their values."""
FLAGS = ("lifelong_counts", "goal_potential_zero", "first_ties")
"""Settings of a run that are shown where they are on."""


def render_maze_page(trace: MazeTrace, result: MazeResult | None = None) -> str:
    """The page as text: the walks of `trace` side by side and, where given, the table of `result`."""
    if not trace.runs:
        raise InputError("A trace without walks shows nothing: name at least one method.")
    if not 2 <= trace.size <= LARGEST_MAZE:
        raise InputError(f"The page shows mazes of 2 to {LARGEST_MAZE} cells per side, not {trace.size}.")
    colors = method_colors(walk.method for walk in trace.runs)
    lifelong = trace.runs[0].options.lifelong
    portals = [_portal(index, pair, trace.size) for index, pair in enumerate(trace.portals)]
    return str(
        load_template("maze.html.jinja", "mmrs.paper.maze").render(
            maze_name=f"{trace.size} × {trace.size} {trace.kind} maze",
            seed=trace.seed,
            agents=[_agent(walk, colors) for walk in trace.runs],
            portals=portals,
            goal_ends=trace.runs[0].options.goal_ends,
            scope="whole run" if lifelong else "this episode",
            charts=_charts("the whole run" if lifelong else "the current episode"),
            speeds=SPEEDS,
            verdict=verdict(trace),
            rows=[benchmark_row(row) for row in result.rows] if result else [],
            benchmark=_benchmark_line(result) if result else "",
            caveats=CAVEATS,
            settings=walk_settings(trace),
            data=_data(trace, portals, colors),
        )
    )


def write_maze_page(path: Path, trace: MazeTrace, result: MazeResult | None = None) -> Path:
    """Write the page, whole or not at all; returns its path."""
    return write_atomic(path, render_maze_page(trace, result))


def walk_settings(trace: MazeTrace) -> list[tuple[str, str]]:
    """Name and value of every setting that matters for these walks; where two walks differ, each with its method."""
    rows = ((name, _values(trace, text)) for name, text in _readers(trace.size * trace.size).items())
    return [(name, value) for name, value in rows if value]


def table_settings(config: Mapping[str, Any]) -> str:
    """The settings of a run as the command line names them; flags only where they are on."""
    numbers = [f"{name} = {config[name]:g}" for name in NUMBERS if name in config]
    return ", ".join(numbers + [name for name in FLAGS if config.get(name)])


def _charts(scope: str) -> tuple[tuple[str, str, str], ...]:
    return (
        ("j", "Fairness J", f"Jain's index of the visits of {scope}, the quantity in the reward."),
        ("coverage", "Coverage", "Share of cells seen at least once since the first step, over all episodes."),
        ("entropy", "Entropy / log S", f"Shannon entropy of the visits of {scope}; 1 means evenly distributed."),
    )


def _agent(walk: MethodTrace, colors: Mapping[str, int]) -> dict[str, Any]:
    return {
        "method": walk.method,
        "label": label(walk.method),
        "color": colors[walk.method],
        "steps_to_coverage": walk.steps_to_coverage,
    }


def _portal(index: int, pair: tuple[int, int], size: int) -> dict[str, Any]:
    return {
        "cells": list(pair),
        "letter": portal_letter(index),
        "color": PORTAL_COLORS[index % len(PORTAL_COLORS)],
        "positions": [f"row {cell // size + 1}, column {cell % size + 1}" for cell in pair],
    }


def _data(trace: MazeTrace, portals: list[dict[str, Any]], colors: Mapping[str, int]) -> dict[str, Any]:
    """What the script reads; walks are packed, since 50,000 steps as text would triple the file."""
    walls = np.asarray(trace.walls, np.int64) @ (1, 2, 4, 8)  # one number per cell: north, south, east, west
    return {
        "size": trace.size,
        "lifelong": trace.runs[0].options.lifelong,
        "walls": walls.tolist(),
        "portals": portals,
        "start": trace.start,
        "goal": trace.goal,
        "runs": [
            {
                "method": walk.method,
                "label": label(walk.method),
                "color": colors[walk.method],
                "states": base64.b64encode(np.asarray(walk.states, "<u2").tobytes()).decode(),
                "resets": list(walk.resets),
                "steps": walk.steps,
                "steps_to_coverage": walk.steps_to_coverage,
            }
            for walk in trace.runs
        ],
    }


def _benchmark_line(result: MazeResult) -> str:
    goal = {
        "coverage": "the goal is an ordinary cell",
        "literal": "the goal pays 1 and ends the episode, as in the paper",
    }
    mazes = max((row.mazes for row in result.rows), default=0)
    return (
        f"Steps until every cell was seen, {mazes:,} mazes per row, the same mazes for every method; "
        f"{goal.get(result.protocol, result.protocol)}. {table_settings(result.config)}. Times faster: mean of plain "
        "Q-learning over mean of the method. Capped runs enter at the cap, so such means are lower bounds; times "
        "faster is then a lower bound where plain Q-learning alone was capped, an upper one where the method alone "
        "was, and no bound where both were."
    )


def _values(trace: MazeTrace, text: Callable[[WalkOptions], str | None]) -> str:
    values = {label(walk.method): value for walk in trace.runs if (value := text(walk.options)) is not None}
    if len(set(values.values())) < 2:
        return next(iter(values.values()), "")
    return ", ".join(f"{value} ({name})" for name, value in values.items())


def _readers(cells: int) -> dict[str, Callable[[WalkOptions], str | None]]:
    """A function for the text of each setting; it returns None where the setting has no effect."""
    return {
        "goal": lambda o: f"pays {o.goal_reward:g} and ends the episode" if o.goal_ends else "an ordinary cell",
        "weight λ_G": lambda o: None if METHODS[o.method] in ("vanilla", "random_walk") else f"{o.weight:g}",
        "discount γ_G inside G": lambda o: f"{o.gamma_g:g}" if METHODS[o.method] in POTENTIALS else None,
        "J at the goal": _goal_potential,
        "visits counted": lambda o: "over the whole run" if o.lifelong else "in each episode",
        "discount γ": lambda o: f"{o.gamma:g}",
        "learning rate α": lambda o: f"{o.alpha:g}",
        "random actions ε": lambda o: f"{o.epsilon:g}",
        "ties": lambda o: "the first action" if o.first_ties else "at random",
        "longest episode": lambda o: f"{o.episode_cap:,} steps ({o.episode_cap / cells:g} S)",
        "step cap": lambda o: f"{o.step_cap:,} steps ({o.step_cap / cells:g} S)",
    }


def _goal_potential(options: WalkOptions) -> str | None:
    if not options.goal_ends or METHODS[options.method] not in POTENTIALS:
        return None
    return "taken as 0" if options.goal_potential_zero else "as anywhere"
