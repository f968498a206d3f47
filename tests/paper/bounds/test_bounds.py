"""The bounds simulation against closed forms and against the failures it must find."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from mmrs.envs.maze.maze import generate_many
from mmrs.errors import InputError, MissingExtraError
from mmrs.functional.entropy import collision_probability, plug_in_entropy
from mmrs.functional.fairness import jain_index
from mmrs.paper.bounds import experiment as module
from mmrs.paper.bounds import simulate as sim
from mmrs.paper.bounds.experiment import BoundsConfig, bounds, simulate

SMALL = BoundsConfig(states=(16, 400), samples=(128, 1024), runs=400, maze_sizes=(5,), mazes=4, walks=5, steps=(1000,))


@pytest.fixture(scope="module")
def result():
    return simulate(SMALL)


def pick(result, source, states, samples):
    return next(c for c in result.cells if (c.source, c.states, c.samples) == (source, states, samples))


def test_measured_errors_of_a_record_by_hand():
    law, counts = np.array([0.5, 0.25, 0.25]), np.array([[4, 0, 0], [2, 1, 1]])
    cell = sim.measure("iid made up", counts, law, 0.5)
    assert cell.l1_quantile == pytest.approx(0.5)  # half way between the errors 1 and 0
    assert cell.l1_bound == pytest.approx(math.sqrt(3 * math.log(2) / 4))
    assert cell.l1_violations == 0.5
    assert cell.entropy_bound == pytest.approx(math.log(3) * math.sqrt(math.log(4) / 8))
    truth = 1.5 * math.log(2)
    assert cell.entropy == pytest.approx(truth)
    assert cell.entropy_bias == pytest.approx(-truth / 2)
    assert cell.entropy_error == pytest.approx(math.sqrt(0.5))
    assert cell.jain_mean == pytest.approx((1 / 3 + 8 / 9) / 2)
    assert cell.collision_error == pytest.approx(math.sqrt(((1 / 0.375 - 1) ** 2 + (2 / 12 / 0.375 - 1) ** 2) / 2))


def test_estimators_agree_with_the_torch_functions():
    law = sim.distribution("zipf", 30)
    counts = np.random.default_rng(0).multinomial(200, law, size=50)
    cell = sim.measure("iid zipf", counts, law, 0.05)
    rows = torch.from_numpy(counts)
    np.testing.assert_allclose(sim.plug_in(counts), plug_in_entropy(rows).numpy(), rtol=1e-12)
    assert cell.jain_mean == pytest.approx(float(jain_index(rows).mean()), rel=1e-12)
    off = collision_probability(rows).numpy() / np.sum(law * law) - 1
    assert cell.collision_error == pytest.approx(float(np.sqrt(np.mean(off**2))), rel=1e-9)


def test_lemma_1_holds_for_independent_visits_with_the_measured_constants(result):
    assert pick(result, "iid uniform", 16, 1024).l1_constant == pytest.approx(0.59, abs=0.04)
    assert pick(result, "iid uniform", 400, 1024).l1_constant == pytest.approx(0.49, abs=0.03)
    assert all(c.l1_violations == 0 for c in result.cells if c.source.startswith("iid"))


def test_lemma_1_needs_more_the_larger_delta_and_never_more_than_its_proof_gives(result):
    needed = [c["needed"] for c in result.constants]
    assert needed == sorted(needed)
    assert needed[-1] > 6
    assert all(c["needed"] < c["proof"] for c in result.constants)
    assert sim.proof_constant(0.05) == pytest.approx(1.58, abs=0.005)


def test_lemma_1_fails_on_walks(result):
    walks = [c for c in result.cells if c.source == "walk perfect"]
    assert walks
    assert all(c.l1_constant > 1.5 and c.l1_violations > 0.9 for c in walks)


def test_lemma_2_fails_for_the_plug_in_where_the_bias_exceeds_the_bound(result):
    assert pick(result, "iid uniform", 400, 128).entropy_violations == 1.0
    assert pick(result, "iid uniform", 16, 1024).entropy_violations == 0.0
    good = pick(result, "iid uniform", 16, 1024)
    assert good.entropy_bias == pytest.approx(good.entropy_bias_formula, rel=0.1)


def test_corrected_bounds_hold_for_independent_visits_and_not_for_walks(result):
    for cell in result.cells:
        if cell.source.startswith("iid"):
            assert cell.l1_corrected_violations == cell.entropy_corrected_violations == 0.0
            assert cell.l1_quantile < cell.l1_corrected < 2.5 * max(cell.l1_quantile, cell.l1_bound)
    walks = [cell for cell in result.cells if cell.source == "walk perfect"]
    assert all(cell.l1_corrected_violations > 0.9 for cell in walks)


def test_corrected_bounds_by_hand():
    assert sim.corrected_l1(5, 4, 1 / math.e) == pytest.approx(1 + math.sqrt(0.5))
    assert sim.corrected_entropy(5, 4, 2 / math.e) == pytest.approx(math.log(2) + math.log(4) * math.sqrt(0.5))


def test_lemma_2_as_written_is_false_for_few_states(result):
    by_states = {row.states: row for row in result.as_written}
    assert by_states[2].violations["0.05"] == pytest.approx(0.158, abs=0.002)
    assert by_states[16].violations["0.05"] < 0.05
    assert by_states[16].violations["0.001"] > 0.001
    assert by_states[2].std == pytest.approx(0.956, abs=0.001)


def test_exact_violation_agrees_with_simulation():
    p, _ = sim.worst_two_point_law(3)
    visits = np.random.default_rng(1).binomial(500, p, size=100_000)
    error = np.abs(visits / 500 - p) * abs(math.log(2 * p / (1 - p)))
    share = np.mean(error > math.log(3) * math.sqrt(math.log(2 / 0.05) / 1000))
    assert sim.literal_lemma2_violation(3, 500, 0.05) == pytest.approx(share, abs=0.004)


def test_rate_is_the_square_root_unless_the_law_is_uniform(result):
    slopes = {rate.law: rate.slope for rate in result.rates}
    assert slopes["zipf"] == pytest.approx(-0.5, abs=0.05)
    assert slopes["uniform"] == pytest.approx(-1.0, abs=0.03)


def test_fairness_of_a_short_record_is_biased_as_the_formula_says(result):
    cell = pick(result, "iid uniform", 400, 1024)
    assert cell.jain_formula == pytest.approx(1 / (1 + 399 / 1024))
    assert cell.jain_mean == pytest.approx(cell.jain_formula, abs=0.002)
    assert cell.jain_error > 5 * cell.entropy_error  # the index is the worse estimator here


@pytest.mark.parametrize("kind", ["perfect", "plus"])
def test_stationary_law_is_left_alone_by_a_step(kind):
    next_state = generate_many(6, kind, np.arange(5, dtype=np.uint64)).next_state
    laws = sim.stationary_law(next_state)
    for table, law in zip(next_state, laws, strict=True):
        moved = np.zeros_like(law)
        np.add.at(moved, table.ravel(), np.repeat(law / 4, 4))
        np.testing.assert_allclose(moved, law, atol=1e-12)
    assert (laws.min() == pytest.approx(1 / 36)) == (kind == "perfect")  # portals bend the law


def test_walks_count_every_visit_and_only_move_as_the_maze_allows():
    ring = np.array([[[1, 1, 1, 1], [2, 2, 2, 2], [0, 0, 0, 0]], [[0, 0, 0, 0], [0] * 4, [0] * 4]], np.int32)
    short, long = sim.walk_counts(ring, 2, (4, 1500), np.random.default_rng(0))
    assert short.tolist() == [[2, 2, 1]] * 2 + [[5, 0, 0]] * 2
    assert long.sum(1).tolist() == [1501] * 4
    assert long[0].tolist() == [501, 500, 500]


def test_same_seed_gives_the_same_numbers():
    config = replace(SMALL, states=(16,), runs=50)
    assert simulate(config).cells == simulate(config).cells
    assert simulate(config).cells != simulate(replace(config, seed=1)).cells


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"delta": 0.0},
            {"delta": 1.0},
            {"states": (1,)},
            {"states": ()},
            {"samples": (1,)},
            {"steps": (0,)},
        ),
        *({"runs": 0}, {"mazes": 0}, {"walks": -1}, {"maze_sizes": (1,)}, {"maze_sizes": (41,)}),
    ],
)
def test_bad_configurations_are_refused_and_nothing_is_written(change, tmp_path):
    with pytest.raises(InputError):
        bounds(replace(SMALL, out=tmp_path / "out", **change))
    assert list(tmp_path.iterdir()) == []


def test_unwritable_folder_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(module, "simulate", lambda _: pytest.fail("worked before looking at the folder"))
    with pytest.raises(InputError, match="--out"):
        bounds(replace(SMALL, out=tmp_path / "file"))


def test_missing_matplotlib_is_noticed_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(module, "simulate", lambda _: pytest.fail("worked without matplotlib"))
    with pytest.raises(MissingExtraError, match="report"):
        bounds(replace(SMALL, out=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_one_state_space_and_no_walks_still_make_tables_and_figures(tmp_path, capsys):
    bounds(replace(SMALL, out=tmp_path, states=(2,), samples=(2,), maze_sizes=()))
    assert "walks" not in capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == 7


def test_every_number_is_readable_in_a_pipe_of_eighty_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    config = replace(SMALL, out=tmp_path, samples=(128, 200, 300, 500, 1024, 2000, 3000, 5000, 8000, 10_000))
    bounds(config)
    printed = capsys.readouterr().out
    assert "…" not in printed
    lines = printed.splitlines()
    cells = simulate(config).cells
    for cell in cells:
        row = [cell.source, f"{cell.l1_quantile:.2f}", f"{cell.l1_constant:.1f}", f"{cell.entropy_bound:.3f}"]
        if cell.source == "iid uniform":
            row = [f" {cell.states} ", f" {cell.samples} ", f"{cell.jain_mean:.4f}", f"{cell.jain_formula:.4f}"]
            row += [f"{cell.entropy_bias:.4f}", f"{cell.entropy_bias_formula:.4f}"]
        if cell.source == "iid uniform" or cell.source.startswith("walk"):
            assert any(all(text in line for text in row) for line in lines), row
    needed = [c.l1_constant for c in cells if (c.source, c.states) == ("iid uniform", 16)]
    assert f"{min(needed):.2f}-{max(needed):.2f}" in printed


def test_command_writes_json_and_figures_and_prints_where_the_bounds_fail(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    bounds(replace(SMALL, out=tmp_path))
    names = {f"{name}.{kind}" for name in ("lemma1", "lemma2", "estimators") for kind in ("png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == names | {"bounds.json"}
    saved = json.loads((tmp_path / "bounds.json").read_text())
    again = simulate(replace(SMALL, out=tmp_path))
    assert [c["l1_constant"] for c in saved["cells"]] == [c.l1_constant for c in again.cells]
    printed = capsys.readouterr().out
    assert "walk plus" in printed
    assert "100.0%" in printed
    assert "-0.5" in printed
