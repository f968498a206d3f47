"""The contents of a report as plain data; pages, figures and tables are made from this alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.registry import FAMILIES as ENV_FAMILIES
from mmrs.report.reference_scores import scored_family
from mmrs.stats import Summary, summarize

Column = NDArray[np.float64]

METRIC_LABELS = {
    "episode_return": "return of one life",
    "game_return": "return of a whole game",
    "coverage": "share of states entered",
    "fairness": "fairness of the states' visits",
    "bonus_size": "size of the bonus, relative to the start",
    "bonus_advantage_share": "share of the advantages' variance that the bonus causes",
    "steps_per_second": "steps per second",
}
OTHER = "other"
SCALES = {family.name: family.report for family in ENV_FAMILIES.values() if family.report}
FAMILIES = {name: scale.title for name, scale in SCALES.items()} | {OTHER: "Other tasks"}
"""Sets of games whose statistics and tables stand together."""
METHOD_LABELS = {"ppo": "PPO", "mmrs": "MMRS", "re3": "RE3", "ride": "RIDE", "rnd": "RND", "jfi": "JFI"}


@dataclass(frozen=True)
class Curve:
    """One metric over training on the game's grid of steps, averaged over seeds; NaN where there is no seed."""

    mean: Column
    low: Column
    """Student's 95 % interval of the mean; NaN for one seed."""
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
    bad_lines: int
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
    """Number of seeds that a sweep has planned; without a sweep, the number of runs."""
    scores: dict[str, dict[int, float]]
    """The last value in the record, by metric, then seed."""
    curves: dict[str, Curve] = field(repr=False)
    config: str = field(repr=False)
    """Configuration of the first seed, as JSON."""

    def summary(self, metric: str) -> Summary | None:
        """Mean, standard deviation and interval over seeds; None without any."""
        values = list(self.scores.get(metric, {}).values())
        return summarize(values) if values else None

    @property
    def unfinished(self) -> int:
        """Number of runs that are not finished."""
        return sum(run.state != "finished" for run in self.runs)


@dataclass(frozen=True)
class Flag:
    """Something about a run's bonus that needs a look."""

    run: str
    env: str
    method: str
    title: str
    measured: str
    remedy: str


@dataclass(frozen=True)
class ReportData:
    """The whole report."""

    cells: dict[tuple[str, str], Cell]
    """By game and method; cells without runs are left out."""
    pairs: frozenset[tuple[str, str]]
    """Games and methods that have runs or planned runs."""
    envs: tuple[str, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    """Metrics to make tables of, the main one first."""
    grids: dict[str, Column]
    """Steps at which the curves of a game are sampled."""
    problems: tuple[str, ...]
    flags: tuple[Flag, ...]
    suites: tuple[str, ...]
    tables: tuple[str, ...]
    made: str
    """Date, and the version that made the report."""
    missing_runs: int
    """Number of runs that sweeps have planned and no folder holds."""

    def family(self, name: str) -> tuple[str, ...]:
        """The games of one of `FAMILIES`, in the order of the page."""
        return tuple(env for env in self.envs if family_of(env) == name)


def family_of(env: str) -> str:
    """Which of `FAMILIES` a game belongs to: that of the environment, if the game has a scale there."""
    found = scored_family(env)
    return found[0] if found else OTHER


def method_label(method: str) -> str:
    """Name of a method on the page."""
    name, space, rest = method.partition(" ")
    return METHOD_LABELS.get(name, name) + space + rest


def metric_label(metric: str) -> str:
    """A metric in words."""
    return METRIC_LABELS.get(metric, metric.removeprefix("env/").replace("_", " "))


def short(value: float) -> str:
    """A score as the paper prints it: thousands with a k."""
    if abs(value) >= 1000:
        return f"{value / 1000:.2f}k"
    return f"{value:.2f}" if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def text_of(found: Summary) -> str:
    """Mean ± standard deviation, as the paper prints it."""
    return f"{short(found.mean)} ± {short(found.std)}" if found.seeds > 1 else short(found.mean)


def interval_of(found: Summary) -> str:
    """The interval, or the reason why there is none."""
    if found.seeds < 2:
        return "one seed: no interval"
    return f"[{short(found.low)}, {short(found.high)}]"
