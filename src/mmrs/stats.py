"""Statistics over seeds and games. rliable does the stratified bootstraps and is imported here alone."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmrs.errors import InputError, MissingExtraError

Scores = NDArray[np.float64]
"""``[seeds, games]``, every seed in every game."""
LEVEL = 0.95
_BLOCK = 4_000_000  # resampled values held at once


class Estimate(NamedTuple):
    """A number and the 95 % interval around it."""

    value: float
    low: float
    high: float


class Spread(NamedTuple):
    """What a handful of seeds come to, as the paper prints it and with an interval."""

    mean: float
    std: float
    """Of the seeds, with n - 1 in the denominator; NaN for one seed."""
    low: float
    """Student's 95 % interval of the mean; NaN for one seed."""
    high: float
    seeds: int


class GameTest(NamedTuple):
    """One method against another in one game."""

    game: str
    difference: float
    """Of the means."""
    p: float
    """Mann-Whitney's U, two-sided."""
    holm: float
    """p, corrected for the number of games by Holm's method."""


def spread(values: Sequence[float] | NDArray[np.float64]) -> Spread:
    """Mean, standard deviation and Student's interval of at least one value."""
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise InputError("no values: a mean needs at least one.")
    mean, low, high = t_interval(array[:, None])
    std = float(array.std(ddof=1)) if len(array) > 1 else math.nan
    return Spread(float(mean[0]), std, float(low[0]), float(high[0]), len(array))


def t_interval(values: NDArray[np.float64]) -> tuple[Scores, Scores, Scores]:
    """Mean and Student's 95 % interval of each column of ``[seeds, points]``; NaN is a seed that is not there.

    Where fewer than two are there the interval is NaN: one seed says nothing of others.
    """
    there = ~np.isnan(values)
    count = there.sum(0)
    safe = np.maximum(count, 1)
    mean = np.where(count > 0, np.where(there, values, 0.0).sum(0) / safe, np.nan)
    square = np.where(there, (values - mean) ** 2, 0.0).sum(0)
    half = _t_quantile(len(values))[count] * np.sqrt(square / np.maximum(count - 1, 1) / safe)
    return mean, mean - half, mean + half


@cache
def _t_quantile(most: int) -> Scores:
    """Student's quantile for 0 to `most` values; NaN where there is no spread to speak of."""
    stats = _scipy_stats()
    return np.array([np.nan if n < 2 else stats.t.ppf(0.5 + LEVEL / 2, n - 1) for n in range(most + 1)])


# --- bootstrap of one mean --------------------------------------------------------------------------------------------


def _resampled_means(values: NDArray[np.int64], resamples: int) -> NDArray[np.float64]:
    """Means of `resamples` bootstrap samples of the rows of `values [N, K]`: ``[resamples, K]``; seed 1."""
    rng = np.random.default_rng(1)
    number = len(values)
    block = max(1, _BLOCK // number)
    means = [
        values[rng.integers(0, number, (min(block, resamples - start), number))].mean(1)
        for start in range(0, resamples, block)
    ]
    return np.concatenate(means)


def mean_interval(steps: NDArray[np.int64]) -> tuple[float, float]:
    """95 % percentile-bootstrap interval of the mean; 2000 resamples."""
    low, high = np.percentile(_resampled_means(steps[:, None], 2000)[:, 0], [2.5, 97.5])
    return float(low), float(high)


def ratio_interval(baseline: NDArray[np.int64], steps: NDArray[np.int64]) -> tuple[float, float]:
    """95 % interval of mean(baseline) / mean(steps), mazes drawn in pairs; 4000 resamples."""
    means = _resampled_means(np.stack([baseline, steps], 1), 4000)
    low, high = np.percentile(means[:, 0] / means[:, 1], [2.5, 97.5])
    return float(low), float(high)


# --- over all games ---------------------------------------------------------------------------------------------------


def aggregates(scores: Mapping[str, Scores], *, reps: int = 1000, seed: int = 0) -> dict[str, dict[str, Estimate]]:
    """Mean, median and interquartile mean of normalised scores for each method, with stratified bootstrap intervals."""
    rliable = _rliable()

    def three(matrix: Scores) -> Scores:
        by_game = matrix.mean(0)
        return np.array([by_game.mean(), np.median(by_game), iqm(matrix)])

    with _seeded(seed):
        points, intervals = rliable.get_interval_estimates(dict(scores), three, reps=reps)
    names = ("mean", "median", "iqm")
    return {
        method: {n: Estimate(*map(float, (points[method][i], *intervals[method][:, i]))) for i, n in enumerate(names)}
        for method in scores
    }


def iqm(matrix: Scores) -> float:
    """Mean of the middle half of all runs in all games, as rliable has it.

    By numpy: scipy's trimmed mean, which rliable calls, takes ten times as long, for looking at its arguments.
    """
    ordered = np.sort(matrix, None)
    cut = ordered.size // 4
    return float(ordered[cut : ordered.size - cut].mean())


def performance_profiles(
    scores: Mapping[str, Scores], thresholds: Scores, *, reps: int = 500, seed: int = 0
) -> dict[str, tuple[Scores, Scores, Scores]]:
    """For each method the share of runs above each threshold, and its bootstrap interval."""
    rliable = _rliable()

    def above(matrix: Scores) -> Scores:
        ordered = np.sort(matrix, None)
        return 1.0 - np.searchsorted(ordered, thresholds, side="right") / ordered.size

    with _seeded(seed):
        points, intervals = rliable.get_interval_estimates(dict(scores), above, reps=reps)
    return {method: (points[method], *intervals[method]) for method in scores}


def probability_of_improvement(x: Scores, y: Scores, *, reps: int = 500, seed: int = 0) -> Estimate:
    """Chance that a run of one method beats a run of another in the same game, averaged over games; ties are half."""
    rliable = _rliable()

    def chance(a: Scores, b: Scores) -> Scores:
        # rliable's own loops over games and tests each: a thousand times slower for the same number.
        return np.array([0.5 + 0.5 * np.sign(a[:, None] - b[None]).mean()])

    with _seeded(seed):
        points, intervals = rliable.get_interval_estimates({"pair": [x, y]}, chance, reps=reps)
    return Estimate(float(points["pair"][0]), *map(float, intervals["pair"][:, 0]))


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
    """Wilcoxon's signed-rank p of two methods' normalised means, paired by game; None for fewer than six games.

    With five pairs no outcome at all is significant at 5 %.
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
        return 1.0  # all the same: nothing to test, and scipy would divide 0 by 0
    return float(stats.mannwhitneyu(x, y).pvalue)


# --- the libraries ----------------------------------------------------------------------------------------------------


def _rliable() -> Any:
    try:
        from rliable import library  # noqa: PLC0415 (an optional extra)
    except ImportError as error:
        raise MissingExtraError("rliable", "stats") from error
    return library


def _scipy_stats() -> Any:
    try:
        from scipy import stats  # noqa: PLC0415 (an optional extra)
    except ImportError as error:
        raise MissingExtraError("scipy", "stats") from error
    return stats


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """rliable draws from numpy's global generator whatever it is given: seed that, and put it back as it was."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
