"""Statistics over seeds and games: intervals, bootstraps, aggregate scores and tests between methods.

Aggregates, profiles and the probability of improvement follow Agarwal et al. 2021, "Deep reinforcement learning at
the edge of the statistical precipice". Numpy alone computes them; scipy gives Student's quantile and the rank tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmrs.errors import InputError, MissingExtraError

Scores = NDArray[np.float64]
"""``[seeds, games]``, every seed in every game."""
LEVEL = 0.95
"""Level of every interval."""
_PERCENTILES = (50 - 50 * LEVEL, 50 + 50 * LEVEL)
_BLOCK = 4_000_000  # resampled values held at once


class Estimate(NamedTuple):
    """A value and the 95 % interval around it."""

    value: float
    low: float
    high: float


class Summary(NamedTuple):
    """The mean over a few seeds, with the standard deviation that the paper prints and an interval."""

    mean: float
    std: float
    """Standard deviation over seeds, with n - 1 in the denominator; NaN for one seed."""
    low: float
    """Student's 95 % interval of the mean; NaN for one seed."""
    high: float
    seeds: int


class GameTest(NamedTuple):
    """One method against another in one game."""

    game: str
    difference: float
    """Difference of the means."""
    p: float
    """Mann-Whitney's U, two-sided."""
    holm: float
    """p, corrected for the number of games by Holm's method."""


# --- one mean ---------------------------------------------------------------------------------------------------------


def summarize(values: Sequence[float] | NDArray[np.float64]) -> Summary:
    """Mean, standard deviation and Student's interval of at least one value."""
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise InputError("no values: a mean needs at least one.")
    mean, low, high = t_interval(array[:, None])
    std = float(array.std(ddof=1)) if len(array) > 1 else math.nan
    return Summary(float(mean[0]), std, float(low[0]), float(high[0]), len(array))


def t_interval(values: NDArray[np.float64]) -> tuple[Scores, Scores, Scores]:
    """Mean and Student's 95 % interval of each column of ``[seeds, points]``; NaN marks a missing seed.

    The interval is NaN where fewer than two seeds are present.
    """
    present = ~np.isnan(values)
    count = present.sum(0)
    safe = np.maximum(count, 1)
    mean = np.where(count > 0, np.where(present, values, 0.0).sum(0) / safe, np.nan)
    square = np.where(present, (values - mean) ** 2, 0.0).sum(0)
    half = _t_quantile(len(values))[count] * np.sqrt(square / np.maximum(count - 1, 1) / safe)
    return mean, mean - half, mean + half


@cache
def _t_quantile(most: int) -> Scores:
    """Student's quantile for 0 to `most` values; NaN for fewer than two."""
    stats = _scipy_stats()
    return np.array([np.nan if n < 2 else stats.t.ppf(0.5 + LEVEL / 2, n - 1) for n in range(most + 1)])


def mean_interval(values: NDArray[Any]) -> tuple[float, float]:
    """95 % percentile-bootstrap interval of the mean; 2000 resamples."""
    return _percentile_interval(_resampled_means(values[:, None], 2000)[:, 0])


def ratio_interval(baseline: NDArray[Any], values: NDArray[Any]) -> tuple[float, float]:
    """95 % interval of mean(baseline) / mean(values), resampled in pairs; 4000 resamples."""
    means = _resampled_means(np.stack([baseline, values], 1), 4000)
    return _percentile_interval(means[:, 0] / means[:, 1])


def difference_interval(a: NDArray[Any], b: NDArray[Any]) -> tuple[float, float]:
    """95 % interval of mean(a) - mean(b), both resampled independently; 10,000 resamples, seed 1."""
    rng = np.random.default_rng(1)
    means = [values[rng.integers(0, len(values), (10_000, len(values)))].mean(1) for values in (a, b)]
    return _percentile_interval(means[0] - means[1])


def _resampled_means(values: NDArray[Any], resamples: int) -> NDArray[np.float64]:
    """Means of `resamples` bootstrap samples of the rows of `values [N, K]`: ``[resamples, K]``; seed 1."""
    rng = np.random.default_rng(1)
    number = len(values)
    block = max(1, _BLOCK // number)
    means = [
        values[rng.integers(0, number, (min(block, resamples - start), number))].mean(1)
        for start in range(0, resamples, block)
    ]
    return np.concatenate(means)


def _percentile_interval(samples: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(samples, _PERCENTILES)
    return float(low), float(high)


# --- over all games ---------------------------------------------------------------------------------------------------


def aggregates(scores: Mapping[str, Scores], *, reps: int = 1000, seed: int = 0) -> dict[str, dict[str, Estimate]]:
    """Mean, median and interquartile mean of normalized scores for each method, with stratified bootstrap intervals."""
    rng = np.random.default_rng(seed)
    found = {method: _stratified_bootstrap(_aggregates, (matrix,), reps, rng) for method, matrix in scores.items()}
    names = ("mean", "median", "iqm")
    return {method: dict(zip(names, map(_estimate, *parts), strict=True)) for method, parts in found.items()}


def iqm(matrix: Scores) -> float:
    """Interquartile mean: the mean of the middle half of all runs in all games."""
    ordered = np.sort(matrix, None)
    cut = ordered.size // 4
    return float(ordered[cut : ordered.size - cut].mean())


def performance_profiles(
    scores: Mapping[str, Scores], thresholds: Scores, *, reps: int = 500, seed: int = 0
) -> dict[str, tuple[Scores, Scores, Scores]]:
    """For each method the share of runs above each threshold, and its bootstrap interval."""

    def above(matrix: Scores) -> Scores:
        ordered = np.sort(matrix, None)
        return 1.0 - np.searchsorted(ordered, thresholds, side="right") / ordered.size

    rng = np.random.default_rng(seed)
    return {method: _stratified_bootstrap(above, (matrix,), reps, rng) for method, matrix in scores.items()}


def probability_of_improvement(x: Scores, y: Scores, *, reps: int = 500, seed: int = 0) -> Estimate:
    """Chance that a run of one method beats a run of another in the same game, averaged over games; ties are half."""

    def chance(a: Scores, b: Scores) -> Scores:
        return np.array([0.5 + 0.5 * np.sign(a[:, None] - b[None]).mean()])

    parts = _stratified_bootstrap(chance, (x, y), reps, np.random.default_rng(seed))
    return _estimate(*(float(part[0]) for part in parts))


def _aggregates(matrix: Scores) -> Scores:
    by_game = matrix.mean(0)
    return np.array([by_game.mean(), np.median(by_game), iqm(matrix)])


def _stratified_bootstrap(
    statistic: Callable[..., Scores], matrices: Sequence[Scores], reps: int, rng: np.random.Generator
) -> tuple[Scores, Scores, Scores]:
    """The statistic and its percentile interval; each resample draws the seeds of every game independently."""
    samples = [statistic(*(_resample(matrix, rng) for matrix in matrices)) for _ in range(reps)]
    low, high = np.percentile(samples, _PERCENTILES, axis=0)
    return statistic(*matrices), low, high


def _resample(matrix: Scores, rng: np.random.Generator) -> Scores:
    return np.take_along_axis(matrix, rng.integers(0, len(matrix), matrix.shape), 0)


def _estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(float(value), float(low), float(high))


# --- pairs of methods -------------------------------------------------------------------------------------------------


def compare_games(x: Mapping[str, Sequence[float]], y: Mapping[str, Sequence[float]]) -> list[GameTest]:
    """One method against another in each game that both have with two seeds or more."""
    stats = _scipy_stats()
    games = [game for game in x if len(x[game]) > 1 and len(y.get(game, ())) > 1]
    values = [_mann_whitney(stats, x[game], y[game]) for game in games]
    return [
        GameTest(game, float(np.mean(x[game]) - np.mean(y[game])), p, corrected)
        for game, p, corrected in zip(games, values, holm(values), strict=True)
    ]


def paired_by_game(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Wilcoxon's signed-rank p of two methods' normalized means, paired by game; None for fewer than six games.

    With five pairs no outcome is significant at 5 %.
    """
    difference = np.subtract(x, y)
    if np.count_nonzero(difference) < 6:
        return None
    return float(_scipy_stats().wilcoxon(difference).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the chance of one false alarm among all tests stays below the level."""
    count = len(p_values)
    order = np.argsort(p_values, kind="stable")
    stepped = np.asarray(p_values, np.float64)[order] * (count - np.arange(count))
    corrected = np.empty(count)
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(value) for value in corrected]


def _mann_whitney(stats: Any, x: Sequence[float], y: Sequence[float]) -> float:
    if len({*x, *y}) == 1:
        return 1.0  # all values are equal: scipy would divide 0 by 0
    return float(stats.mannwhitneyu(x, y).pvalue)


def _scipy_stats() -> Any:
    try:
        from scipy import stats  # noqa: PLC0415 (an optional extra)
    except ImportError as error:
        raise MissingExtraError("scipy", "stats") from error
    return stats
