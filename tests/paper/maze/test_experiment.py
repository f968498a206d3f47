"""The maze experiment: what it must show, its statistics, its files, its refusals."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from tests.support import maze_reference as reference

from mmrs.envs.maze.maze import generate
from mmrs.errors import InputError
from mmrs.paper.maze import experiment
from mmrs.paper.maze.experiment import MazeConfig, check, maze, run
from mmrs.paper.maze.options import METHODS, walk_options
from mmrs.paper.maze.results import trace
from mmrs.paper.maze.table import notes, show
from mmrs.paper.maze.text import why_slower
from mmrs.stats import mean_interval, ratio_interval

ACCEPTANCE = {  # kind, size: least lower end of the ratio's interval, largest mean of JFI
    ("plus", 5): (1.05, 140),
    ("plus", 10): (1.20, 770),
    ("plus", 20): (1.25, 3750),
    ("perfect", 5): (1.35, 160),
    ("perfect", 10): (2.7, 850),
    ("perfect", 20): (4.0, 4500),
}


@pytest.fixture(scope="module")
def hundred():
    return run(MazeConfig(mazes=100))


@pytest.mark.parametrize(("kind", "size"), ACCEPTANCE)
def test_jfi_covers_mazes_sooner(hundred, kind, size):
    least, largest = ACCEPTANCE[kind, size]
    row = hundred.row(kind, size, "jfi")
    assert row.ratio_low >= least
    assert row.mean <= largest
    assert (row.censored, row.covered, row.verdict, row.reason) == (0, 1.0, "faster", "")


@pytest.mark.parametrize("first_seed", [1000, 2000])
def test_so_it_does_on_mazes_nobody_looked_at(first_seed):
    result = run(MazeConfig(mazes=100, first_seed=first_seed))
    for (kind, size), (least, largest) in ACCEPTANCE.items():
        row = result.row(kind, size, "jfi")
        assert row.ratio_low >= least
        assert row.mean <= largest


@pytest.mark.parametrize(
    ("size", "options", "below", "reason"),
    [(20, {"gamma_g": 0.99}, 0.95, "gamma_g 0.99 < 1"), (10, {"lambda_g": 1.0}, 0.5, "above the step cost")],
)
def test_negative_controls_lose_and_say_why(size, options, below, reason):
    row = run(MazeConfig(mazes=100, sizes=(size,), kinds=("plus",), **options)).row("plus", size, "jfi")
    assert row.ratio < below
    assert row.verdict == "slower"
    assert reason in row.reason


def test_on_three_by_three_there_is_next_to_nothing_to_gain():
    row = run(MazeConfig(mazes=300, sizes=(3,), kinds=("plus",))).row("plus", 3, "jfi")
    assert 0.9 < row.ratio < 1.2


@pytest.mark.parametrize("method", ["jfi", "count_bonus"])
def test_a_billionth_of_the_weight_does_as_well_so_the_gain_is_tie_breaking(method, hundred):
    tiny = run(MazeConfig(mazes=100, sizes=(10,), methods=(method,), lambda_g=1e-9))
    for kind in ("plus", "perfect"):
        assert tiny.row(kind, 10, method).mean < 1.05 * hundred.row(kind, 10, "jfi").mean


def test_simple_alternatives_help_too_and_a_random_walk_does_not():
    result = run(MazeConfig(mazes=100, sizes=(10,), kinds=("perfect",), methods=METHODS))
    ratios = {row.method: row.ratio for row in result.rows}
    assert ratios.pop("vanilla") is None
    assert ratios.pop("random_walk") < 0.2
    assert all(ratio > 1.2 for ratio in ratios.values())
    assert result.row("perfect", 10, "random_walk").censored > 10


def test_the_literal_protocol_measures_lock_in():
    """Many vanilla runs never finish; the mean is whatever the cap is."""
    result = run(MazeConfig(mazes=100, sizes=(5,), protocol="literal"))
    vanilla = result.row("plus", 5, "vanilla")
    assert 10 < vanilla.censored < 40
    assert vanilla.mean > 10 * vanilla.median
    assert 0.9 < vanilla.covered < 1
    assert max(vanilla.steps) == vanilla.cap == 25_000
    assert 0.3 < result.unreachable["perfect 5"] < 0.6
    shorter = run(MazeConfig(mazes=100, sizes=(5,), protocol="literal", step_cap=100)).row("plus", 5, "vanilla")
    assert shorter.mean < vanilla.mean / 3


def test_statistics_of_a_row_are_those_of_its_steps(hundred):
    row, vanilla = hundred.row("plus", 10, "jfi"), hundred.row("plus", 10, "vanilla")
    steps, base = np.array(row.steps), np.array(vanilla.steps)
    assert (row.mean, row.median) == (steps.mean(), np.median(steps))
    assert row.ratio == base.mean() / steps.mean()
    assert row.wins == (steps < base).mean()
    assert (vanilla.ratio, vanilla.verdict) == (None, "baseline")
    assert (row.mean_low, row.mean_high) == mean_interval(steps)
    assert (row.ratio_low, row.ratio_high) == ratio_interval(base, steps)
    assert hundred.env_steps == sum(sum(c.steps) for c in hundred.rows)


def test_the_bootstrap_is_the_percentile_bootstrap():
    steps = np.random.default_rng(0).integers(50, 500, 200)
    low, high = mean_interval(steps)
    # The normal approximation is good to a few percent of its width at 200 samples.
    half = 1.96 * steps.std() / np.sqrt(200)
    assert abs(low - (steps.mean() - half)) < 0.1 * half
    assert abs(high - (steps.mean() + half)) < 0.1 * half
    assert ratio_interval(2 * steps, steps) == (2.0, 2.0)  # pairs stay pairs
    shuffled = np.random.default_rng(1).permutation(steps)
    assert ratio_interval(2 * shuffled, steps)[0] < 1.95


def test_large_samples_are_resampled_in_blocks(monkeypatch):
    steps = np.random.default_rng(0).integers(50, 500, 300)
    whole = mean_interval(steps)
    monkeypatch.setattr("mmrs.stats._BLOCK", 3000)
    assert mean_interval(steps) == whole


def test_blocks_of_mazes_change_nothing(hundred, monkeypatch):
    monkeypatch.setattr(experiment, "_blocks", lambda config, size: np.array_split(np.arange(100, dtype=np.uint64), 7))
    again = run(MazeConfig(mazes=100, sizes=(10,), kinds=("plus",)))
    assert again.row("plus", 10, "jfi").steps == hundred.row("plus", 10, "jfi").steps


def test_a_trace_is_the_walk_of_the_experiment(hundred):
    walks = trace(10, "perfect", 7, [walk_options("vanilla", 10), walk_options("jfi", 10)])
    assert [one.method for one in walks.runs] == ["vanilla", "jfi"]
    known = generate(10, "perfect", 7)
    for one in walks.runs:
        assert one.steps_to_coverage == one.steps == hundred.row("perfect", 10, one.method).steps[7]
        assert len(one.states) == one.steps + len(one.resets)
        assert set(one.states) == set(range(100))
        assert one.states.count(one.states[-1]) == 1  # it stops at the last cell's first visit
        starts = set(one.resets)
        for i in range(1, len(one.states)):
            here, there = one.states[i - 1], one.states[i]
            assert (there == 0) if i in starts else (there in known.next_state[here])
    assert walks.walls == tuple(map(tuple, known.walls.tolist()))
    plain = json.loads(json.dumps(walks.to_dict()))
    assert (plain["goal"], plain["runs"][1]["options"]["gamma"]) == (99, 0.99)


OTHER_OPTIONS = {
    "literal": {"protocol": "literal"},
    "zero at the goal": {"protocol": "literal", "goal_potential_zero": True, "lambda_g": 0.5},
    "learner": {"alpha": 0.5, "gamma": 0.9, "epsilon": 0.05},
    "caps": {"episode_cap": 1, "step_cap": 5},
    "lifelong": {"lifelong_counts": True, "gamma_g": 0.99},
    "ties": {"first_ties": True},
    "penalty": {"methods": ("count_penalty",), "penalty_weight": 0.1},
}


@pytest.mark.parametrize("options", OTHER_OPTIONS.values(), ids=OTHER_OPTIONS)
def test_the_page_shows_the_walks_of_the_run_whatever_its_options(tmp_path, monkeypatch, options):
    """The sample maze is drawn and walked as the simulation of first_seed was."""
    drawn = []
    monkeypatch.setattr(experiment, "write_maze_page", lambda path, sample, _: drawn.append(sample) or path)
    monkeypatch.setattr(experiment, "draw_maze_figure", lambda *_: [])
    for seed in range(4):
        config = MazeConfig(sizes=(6,), kinds=("plus",), mazes=1, first_seed=seed, page_size=6, out=tmp_path, **options)
        maze(config)
        result, sample = run(config), drawn.pop()
        goal = "terminal" if config.protocol == "literal" else "inert"
        assert sample.walls == tuple(map(tuple, generate(6, "plus", seed, goal).walls.tolist()))
        assert [one.method for one in sample.runs] == [row.method for row in result.rows]
        for one, row in zip(sample.runs, result.rows, strict=True):
            assert one.steps == row.steps[0]
            assert (one.steps_to_coverage is None) == bool(row.censored)
            wanted = reference.walk(generate(6, "plus", seed, goal).next_state.tolist(), one.options, seed)
            assert one.states == tuple(wanted.states)


def test_a_trace_can_be_cut_short_and_refuses_nonsense():
    jfi = walk_options("jfi", 10)
    one = trace(10, "plus", 0, [jfi._replace(step_cap=50)]).runs[0]
    assert (one.steps, one.steps_to_coverage, len(one.states)) == (50, None, 51)
    mixed = [jfi, jfi._replace(goal_ends=True)]
    for change in ({"walks": []}, {"walks": mixed}, {"size": 1}, {"kind": "round"}, {"seed": -1}):
        with pytest.raises(InputError):
            trace(**({"size": 10, "kind": "plus", "seed": 0, "walks": [jfi]} | change))


def test_the_command_writes_its_results_and_prints_them(tmp_path, capsys):
    config = MazeConfig(sizes=(5,), kinds=("plus",), mazes=50, lambda_g=2.0, methods=("jfi",), out=tmp_path / "new")
    maze(config)
    written = json.loads((tmp_path / "new" / "maze.json").read_text())
    result = run(config)
    assert written["cells"] == json.loads(json.dumps(result.to_dict()))["cells"]
    assert [row["method"] for row in written["cells"]] == ["vanilla", "jfi"]
    assert written["config"]["lambda_g"] == 2.0
    printed = capsys.readouterr().out
    for row in result.rows:
        assert f"{row.mean:.0f} [{row.mean_low:.0f}, {row.mean_high:.0f}]" in printed
    assert "jfi loses on plus 5: weight 2 is above the step cost" in printed
    names = {"maze.json", "maze.html", "maze.png", "maze.svg"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    assert all(str(tmp_path / "new" / name) in printed for name in names)


def test_without_the_extra_for_pictures_the_numbers_are_still_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    maze(MazeConfig(sizes=(3,), kinds=("plus",), mazes=5, out=tmp_path, page_size=4))
    assert [path.name for path in tmp_path.iterdir()] == ["maze.json"]
    assert "pip install 'mmrs[report]'" in capsys.readouterr().out


def test_capped_means_are_marked_as_lower_bounds():
    console = Console(record=True, width=60, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    result = run(MazeConfig(sizes=(5,), kinds=("perfect",), mazes=20, step_cap=2))
    assert result.row("perfect", 5, "vanilla").censored == 20
    show(result, console)
    printed = " ".join(console.export_text().split())
    assert "enter the mean at the cap: it is a lower bound" in printed
    assert "ratio is no bound, neither lower nor upper (both were capped): jfi on perfect 5." in printed


@pytest.mark.parametrize(
    ("vanilla", "jfi", "meaning"),
    [(3, 0, "ratio is a lower bound"), (0, 2, "ratio is an upper bound"), (3, 2, "ratio is no bound"), (0, 0, None)],
)
def test_a_ratio_of_capped_means_is_called_what_it_is(hundred, vanilla, jfi, meaning):
    rows = [hundred.row("plus", 5, "vanilla"), hundred.row("plus", 5, "jfi")]
    capped = [replace(row, censored=number) for row, number in zip(rows, (vanilla, jfi), strict=True)]
    notes_ = [line for line in notes(replace(hundred, rows=tuple(capped))) if line.startswith("ratio is")]
    assert len(notes_) == (meaning is not None)
    assert all(line.startswith(meaning) and line.endswith("jfi on plus 5.") for line in notes_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": (5, 1)}, "from 2"),
        ({"sizes": ()}, "sizes is empty"),
        ({"kinds": ("plus", "perfekt")}, "Did you mean 'perfect'"),
        ({"methods": ("jfi", "curiosity")}, "unknown method 'curiosity'. Known:|unknown method 'curiosity'. Did"),
        ({"methods": ("jfj",)}, "Did you mean 'jfi'"),
        ({"protocol": "literally"}, "Did you mean 'literal'"),
        ({"mazes": 0}, "mazes"),
        ({"page_size": 1}, "page_size"),
        ({"episode_cap": -1}, "episode_cap"),
        ({"step_cap": -1}, "step_cap"),
        ({"first_seed": -1}, "first_seed"),
        ({"lambda_g": float("nan")}, "lambda_g"),
        ({"gamma_g": 1.5}, "gamma_g"),
        ({"epsilon": -0.1}, "epsilon"),
    ],
)
def test_bad_input_is_refused_before_any_work(tmp_path, monkeypatch, options, message):
    monkeypatch.setattr(experiment, "generate_many", None)
    config = MazeConfig(out=tmp_path / "new", **options)
    for function in (check, maze):
        with pytest.raises(InputError, match=message):
            function(config)
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_cannot_be_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "run", None)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(InputError, match="Cannot write"):
        maze(MazeConfig(out=tmp_path / "file" / "below"))
    assert (tmp_path / "file").read_text() == "kept"


def test_reasons_name_the_rule_that_was_broken():
    assert "random" in why_slower(5, walk_options("random_walk", 5))
    assert "locked in" in why_slower(5, walk_options("jfi", 5, goal_ends=True))
    assert "step cost" in why_slower(5, walk_options("jfi", 5, weight=0.2))
    assert "grows with J" in why_slower(20, walk_options("jfi", 20, gamma_g=0.99))
    assert "tuning" in why_slower(50, walk_options("coverage", 50))
