"""What a page on several methods needs to know of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

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
