"""Statistics over a set of games, with scores normalized to a scale that all games share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmrs import stats
from mmrs.report.data import OTHER, Cell, ReportData
from mmrs.report.reference_scores import bounds, game_name
from mmrs.stats import Estimate, GameTest, Scores

METRIC = "game_return"
"""Returns of whole games, as the human and the published scores are."""
OTHER_SCALE = "0 is the lowest and 1 the highest run of each task on this page"


@dataclass(frozen=True)
class Improvement:
    """One method against the baseline, over all games."""

    method: str
    chance: Estimate
    """Chance that a run of the method beats one of the baseline in the same game."""
    paired: float | None
    """Wilcoxon's p of the means paired by game; None for too few games."""
    games: tuple[GameTest, ...]
    """One test per game, corrected for their number."""


@dataclass(frozen=True)
class FamilyStats:
    """Aggregate scores and comparisons of the methods over one set of games."""

    family: str
    games: tuple[str, ...]
    """Games in which every method has two seeds or more, and for which the scale is defined."""
    seeds: int
    """Seeds used per game: the smallest number that any cell has."""
    unfinished: int
    """Number of runs among them that are not finished; their latest values count."""
    left_out: tuple[str, ...]
    baseline: str
    aggregates: dict[str, dict[str, Estimate]]
    thresholds: Scores
    profiles: dict[str, tuple[Scores, Scores, Scores]]
    improvements: tuple[Improvement, ...]


def family_stats(report: ReportData, family: str) -> FamilyStats | str:
    """Statistics of one set of games, or the reason why there are none."""
    envs = report.family(family)
    methods = [m for m in report.methods if any(_values(report.cells.get((env, m))) for env in envs)]
    if len(methods) < 2:
        return "Comparing needs runs of two methods."
    full = [env for env in envs if all(len(_values(report.cells.get((env, m)))) > 1 for m in methods)]
    games = [env for env in full if _scale(report, family, env) is not None]
    if not games:
        return "Comparing needs a game in which every method has two seeds or more."
    seeds = min(len(_values(report.cells[env, m])) for env in games for m in methods)
    matrices = {m: _matrix(report, family, games, m, seeds) for m in methods}
    baseline = "ppo" if "ppo" in methods else methods[0]
    thresholds = _thresholds(matrices)
    return FamilyStats(
        family=family,
        games=tuple(games),
        seeds=seeds,
        unfinished=sum(report.cells[env, m].unfinished for env in games for m in methods),
        left_out=tuple(game_name(env) for env in envs if env not in games),
        baseline=baseline,
        aggregates=stats.aggregates(matrices),
        thresholds=thresholds,
        profiles=stats.performance_profiles(matrices, thresholds),
        improvements=tuple(_improvement(report, games, matrices, m, baseline) for m in methods if m != baseline),
    )


def _values(cell: Cell | None) -> list[float]:
    """Scores ordered by seed."""
    return [value for _, value in sorted(cell.scores[METRIC].items())] if cell else []


def _scale(report: ReportData, family: str, env: str) -> tuple[float, float] | None:
    """The scores that count as 0 and as 1; None where the scale is not defined."""
    if family != OTHER:
        return bounds(env)
    values = [value for m in report.methods for value in _values(report.cells.get((env, m)))]
    return (min(values), max(values)) if max(values) > min(values) else (min(values), min(values) + 1.0)


def _matrix(report: ReportData, family: str, games: list[str], method: str, seeds: int) -> Scores:
    columns = []
    for env in games:
        scale = _scale(report, family, env)
        assert scale is not None, "games without a scale were left out"
        low, high = scale
        columns.append((np.array(_values(report.cells[env, method])[:seeds]) - low) / (high - low))
    return np.stack(columns, 1)


def _thresholds(matrices: dict[str, Scores]) -> Scores:
    """Sixty scores from the lowest run to the 95th percentile of all runs."""
    everything = np.concatenate([matrix.ravel() for matrix in matrices.values()])
    return np.linspace(everything.min(), np.percentile(everything, 95), 60)


def _improvement(
    report: ReportData, games: list[str], matrices: dict[str, Scores], method: str, baseline: str
) -> Improvement:
    x, y = matrices[method], matrices[baseline]
    by_game = [{game_name(env): _values(report.cells[env, m]) for env in games} for m in (method, baseline)]
    return Improvement(
        method,
        stats.probability_of_improvement(x, y),
        stats.paired_by_game(x.mean(0).tolist(), y.mean(0).tolist()),
        tuple(stats.compare_games(*by_game)),
    )
