"""Statistics of the report against rliable, scipy and independent computations in plain numpy."""

import sys

import numpy as np
import pytest
from rliable import library, metrics
from scipy import stats as scipy_stats

from mmrs import stats
from mmrs.errors import InputError, MissingExtraError


def matrix(seed, runs=8, games=20, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.gamma(2.0, 1.0, (runs, games)) + shift * rng.random(games)


def own_iqm(values):
    """The mean of what is left when the lowest and the highest quarter are cut off."""
    ordered = np.sort(values, axis=None)
    cut = ordered.size // 4
    return sum(ordered[cut : ordered.size - cut].tolist()) / (ordered.size - 2 * cut)


def own_bootstrap(scores, statistic, reps, seed):
    """Resample the seeds of each game independently."""
    rng = np.random.default_rng(seed)
    runs, games = scores.shape
    drawn = [statistic(scores[rng.integers(0, runs, (runs, games)), np.arange(games)]) for _ in range(reps)]
    return np.percentile(drawn, [2.5, 97.5])


@pytest.mark.parametrize("shape", [(8, 20), (5, 6), (3, 1)])
def test_iqm_mean_and_median_agree_to_1e_12(shape):
    scores = matrix(1, *shape)
    got = stats.aggregates({"x": scores}, reps=10)["x"]
    assert abs(got["iqm"].value - own_iqm(scores)) < 1e-12
    per_game = [sum(column) / len(column) for column in scores.T.tolist()]
    assert abs(got["mean"].value - sum(per_game) / len(per_game)) < 1e-12
    assert abs(got["median"].value - np.median(per_game)) < 1e-12


@pytest.mark.parametrize("shape", [(8, 20), (5, 7), (3, 1), (1, 1)])
def test_point_values_are_those_of_rliable(shape):
    scores = matrix(9, *shape)
    got = stats.aggregates({"x": scores}, reps=2)["x"]
    want = {"iqm": metrics.aggregate_iqm, "mean": metrics.aggregate_mean, "median": metrics.aggregate_median}
    assert {name: estimate.value for name, estimate in got.items()} == pytest.approx(
        {name: float(aggregate(scores)) for name, aggregate in want.items()}, rel=1e-15
    )
    taus = np.linspace(0, 6, 13)
    share = stats.performance_profiles({"x": scores}, taus, reps=2)["x"][0]
    assert share == pytest.approx(library.create_performance_profile({"x": scores}, taus, reps=2)[0]["x"], abs=1e-15)


def test_intervals_are_those_of_rliable_within_the_error_of_a_bootstrap():
    x, y, taus, reps = matrix(2), matrix(3, shift=1.0), np.linspace(0.5, 4, 8), 2000

    def three(a):
        return np.array([metrics.aggregate_mean(a), metrics.aggregate_median(a), metrics.aggregate_iqm(a)])

    def both(a, b):
        return np.array([metrics.probability_of_improvement(a, b)])

    found = stats.aggregates({"x": x}, reps=reps)["x"]
    chance = stats.probability_of_improvement(x, y, reps=200)
    _, low, high = stats.performance_profiles({"x": x}, taus, reps=reps)["x"]
    np.random.seed(0)  # noqa: NPY002 (rliable draws from the global generator)
    _, theirs = library.get_interval_estimates({"x": x}, three, reps=reps)
    _, profile = library.create_performance_profile({"x": x}, taus, reps=reps)
    _, pair = library.get_interval_estimates({"pair": [x, y]}, both, reps=200)
    for name, (a, b) in zip(("mean", "median", "iqm"), theirs["x"].T, strict=True):
        agree(found[name], (a, b), reps)
    for a, b, c, d in zip(low, high, *profile["x"], strict=True):
        agree(stats.Estimate(0.0, a, b), (c, d), reps)
    agree(chance, pair["pair"][:, 0], 200)


def agree(ours, theirs, reps):
    """Both ends of two bootstrap intervals, each of `reps` resamples, differ by no more than resampling explains."""
    low, high = theirs
    std = (high - low) / 3.92
    # Standard error of a 2.5 % quantile of n normal draws: 2.67 std / sqrt(n); two of them differ by sqrt(2) times it.
    error = 4 * 2.67 * std / np.sqrt(reps) * np.sqrt(2) + 0.5 / 160  # the shares of 160 runs are discrete
    assert abs(ours.low - low) < error < high - low
    assert abs(ours.high - high) < error


def test_intervals_agree_to_the_error_of_a_bootstrap():
    scores = matrix(2)
    got = stats.aggregates({"x": scores}, reps=2000)["x"]["iqm"]
    agree(got, own_bootstrap(scores, own_iqm, 2000, 5), 2000)


def test_bootstraps_repeat_and_leave_the_global_generator_alone():
    scores = {"x": matrix(3)}
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (stats.aggregates(scores, reps=50, seed=1) for _ in range(2))
    assert first == second
    assert first != stats.aggregates(scores, reps=50, seed=2)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_profiles_count_runs_above_each_threshold():
    scores, taus = {"x": matrix(4), "y": matrix(5, shift=1.0)}, np.linspace(0, 6, 13)
    got = stats.performance_profiles(scores, taus, reps=200)
    for name, (share, low, high) in got.items():
        assert share == pytest.approx([(scores[name] > tau).mean() for tau in taus], abs=1e-15)
        assert (low <= share + 1e-12).all()
        assert (share <= high + 1e-12).all()
    assert (got["y"][0][4:8] > got["x"][0][4:8]).all()


def test_the_probability_of_improvement_is_that_of_rliable():
    x, y = matrix(6).round(0), matrix(7, shift=1.0).round(0)  # rounded: with ties
    got = stats.probability_of_improvement(x, y, reps=300)
    assert got.value == pytest.approx(metrics.probability_of_improvement(x, y), abs=1e-12)
    assert got.low < got.value < got.high < 0.5
    assert stats.probability_of_improvement(x, x, reps=10).value == 0.5


def test_the_interval_of_a_summary_is_students():
    values = [3.0, 5.0, 10.0]
    got = stats.summarize(values)
    want = scipy_stats.t.interval(0.95, 2, np.mean(values), scipy_stats.sem(values))
    assert (got.mean, got.std, got.seeds) == (6.0, pytest.approx(np.std(values, ddof=1)), 3)
    assert (got.low, got.high) == pytest.approx(want)
    one = stats.summarize([4.0])
    assert (one.mean, one.seeds) == (4.0, 1)
    assert np.isnan([one.std, one.low, one.high]).all()  # one seed has no interval
    with pytest.raises(InputError, match="no values"):
        stats.summarize([])


def test_intervals_of_curves_leave_out_missing_seeds():
    nan = np.nan
    values = np.array([[1.0, 2.0, nan, 7.0], [3.0, nan, nan, nan], [5.0, 4.0, nan, nan]])
    mean, low, high = stats.t_interval(values)
    assert mean[3] == 7.0
    assert np.isnan([low[3], high[3]]).all()
    assert mean[:2].tolist() == [3.0, 3.0]
    assert np.isnan(mean[2])
    want = scipy_stats.t.interval(0.95, 1, 3.0, scipy_stats.sem([2.0, 4.0]))
    assert (low[1], high[1]) == pytest.approx(want)


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match=r"scipy is not installed.*mmrs\[stats\]"):
        stats.compare_games({}, {})


def test_a_difference_resamples_both_samples_independently():
    a, b = np.random.default_rng(0).normal(5.0, 1.0, 40), np.random.default_rng(1).normal(3.0, 2.0, 60)
    low, high = stats.difference_interval(a, b)
    want = scipy_stats.bootstrap((a, b), lambda x, y, axis: x.mean(axis) - y.mean(axis), method="percentile", rng=2)
    agree(stats.Estimate(0.0, low, high), want.confidence_interval, 10_000)
    assert stats.difference_interval(a, b) == (low, high)


def test_holm_by_hand():
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.5, 0.9]) == [1.0, 1.0]
    assert stats.holm([]) == []


def test_games_are_compared_with_correction():
    rng = np.random.default_rng(8)
    noise = {f"g{i}": rng.standard_normal(8).tolist() for i in range(20)}
    other = {f"g{i}": rng.standard_normal(8).tolist() for i in range(20)}
    other["g3"] = [value + 9.0 for value in noise["g3"]]
    tests = {test.game: test for test in stats.compare_games(other, noise)}
    assert tests["g3"].holm < 0.05
    assert tests["g3"].difference == pytest.approx(9.0)
    assert [game for game, test in tests.items() if test.holm < 0.05] == ["g3"]
    assert tests["g3"].p == pytest.approx(scipy_stats.mannwhitneyu(other["g3"], noise["g3"]).pvalue)
    assert stats.compare_games({"a": [1.0, 1.0], "b": [1.0]}, {"a": [1.0, 1.0], "b": [2.0, 3.0]})[0].p == 1.0


def test_pairs_over_games():
    assert stats.paired_by_game([1, 2, 3, 4, 5], [0, 0, 0, 0, 0]) is None
    assert stats.paired_by_game([1, 2, 3, 4, 5, 6, 7, 8], [0] * 8) == pytest.approx(2 / 2**8)
