"""What the report shows, as plain data: pages, figures and tables are made from this alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mmrs.report.reference_scores import ATARI, BULLET, game_name
from mmrs.stats import Spread, spread

Column = NDArray[np.float64]

METRIC_LABELS = {
    "life_return": "return of one life",
    "game_return": "return of a whole game",
    "coverage": "share of states entered",
    "fairness": "fairness of the states' visits",
    "bonus_size": "size of the bonus, relative to the start",
    "bonus_advantage_share": "share of the advantages' variance that the bonus causes",
    "steps_per_second": "steps a second",
}
METHOD_LABELS = {"ppo": "PPO", "mmrs": "MMRS", "re3": "RE3", "ride": "RIDE", "rnd": "RND", "jfi": "JFI"}


@dataclass(frozen=True)
class Curve:
    """One number over training on the game's grid of steps, over seeds; NaN where no seed is."""

    mean: Column
    low: Column
    """Student's 95 % interval of the mean; NaN where there is one seed."""
    high: Column


@dataclass(frozen=True)
class RunLine:
    """One run in the list of runs."""

    name: str
    path: str
    seed: int
    step: int
    total: int
    state: str
    """finished, unfinished or failed."""
    bad: int
    version: str
    command: str
    error: str


@dataclass(frozen=True)
class Cell:
    """All seeds of one method in one game."""

    env: str
    method: str
    runs: tuple[RunLine, ...]
    planned: int
    """Seeds there should be; as many as there are where no sweep says."""
    scores: dict[str, dict[int, float]]
    """Metric, then seed: the last value in the record."""
    curves: dict[str, Curve] = field(repr=False)
    config: str = field(repr=False)
    """JSON of the first seed's configuration."""

    def spread(self, metric: str) -> Spread | None:
        """Mean, standard deviation and interval over seeds; None without any."""
        values = list(self.scores.get(metric, {}).values())
        return spread(values) if values else None

    @property
    def unfinished(self) -> int:
        """Seeds that are there and have not come to their end."""
        return sum(run.state != "finished" for run in self.runs)


@dataclass(frozen=True)
class Flag:
    """Something about a run's bonus that needs a look."""

    run: str
    env: str
    method: str
    title: str
    figure: str
    remedy: str


@dataclass(frozen=True)
class ReportData:
    """The whole report."""

    cells: dict[tuple[str, str], Cell]
    """By game and method; what is not there is missing."""
    pairs: frozenset[tuple[str, str]]
    """Games and methods that have runs or are to have some."""
    envs: tuple[str, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    """Scores to make tables of, the first first."""
    grids: dict[str, Column]
    """Steps at which the curves of a game are given."""
    problems: tuple[str, ...]
    flags: tuple[Flag, ...]
    suites: tuple[str, ...]
    tables: tuple[str, ...]
    made: str
    """When and by which version."""
    missing_runs: int
    """Runs that sweeps have planned and no folder holds."""

    def family(self, name: str) -> tuple[str, ...]:
        """The games of the paper's first table, of its third, or of neither."""
        return tuple(env for env in self.envs if family_of(env) == name)


FAMILIES = {"atari": "Atari games", "bullet": "Bullet games", "other": "Other tasks"}


def family_of(env: str) -> str:
    """Which of the paper's tables a game is in."""
    game = game_name(env)
    return "atari" if game in ATARI else "bullet" if game in BULLET else "other"


def method_label(method: str) -> str:
    """How a method is called on the page."""
    name, space, rest = method.partition(" ")
    return METHOD_LABELS.get(name, name) + space + rest


def metric_label(metric: str) -> str:
    """What a number is, in words."""
    return METRIC_LABELS.get(metric, metric.removeprefix("env/").replace("_", " "))


def short(value: float) -> str:
    """A score as the paper prints it: thousands with a k."""
    if abs(value) >= 1000:
        return f"{value / 1000:.2f}k"
    return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def text_of(found: Spread) -> str:
    """Mean ± standard deviation, as the paper prints it."""
    return f"{short(found.mean)} ± {short(found.std)}" if found.seeds > 1 else short(found.mean)


def interval_of(found: Spread) -> str:
    """The interval, or why there is none."""
    if found.seeds < 2:
        return "one seed: no interval"
    return f"[{short(found.low)}, {short(found.high)}]"
