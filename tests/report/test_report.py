"""Scores, curves and statistics of the report, and the tables it writes."""

from __future__ import annotations

import csv
import io
import itertools
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tests.support.runs import GAMES, made, made_up, quiet, write_grid, write_run

from mmrs.report.command import ReportConfig, report
from mmrs.report.family_stats import FamilyStats, family_stats
from mmrs.report.tables import score_tables, to_csv, to_latex, to_markdown
from mmrs.runs.records import POINTS


def test_cells_hold_every_seed_and_the_last_value(grid):
    data = made(grid)
    assert data.envs == GAMES
    assert data.methods == ("ppo", "rnd", "mmrs")
    cell = data.cells["ALE/Alien-v5", "mmrs"]
    assert cell.scores["game_return"] == {0: 300.0, 1: 301.0, 2: 302.0}
    found = cell.summary("game_return")
    assert (found.mean, found.std, found.seeds) == (301.0, 1.0, 3)
    assert found.low == pytest.approx(301 - 4.302652729911275 / np.sqrt(3))
    assert [run.command for run in cell.runs] == [f"mmrs train --seed {s}" for s in range(3)]
    assert json.loads(cell.config)["bonus"]["name"] == "mmrs"
    assert (data.problems, data.missing_runs) == ((), 0)


def test_curves_are_means_between_rows_and_end_where_runs_end(tmp_path):
    config = made_up("CartPole-v1", "rnd", 0, steps=1000)
    write_run(tmp_path / "a", config, 10, score=100.0)
    write_run(tmp_path / "b", replace(config, seed=1), 5, done=0.5, score=50.0)
    data = made(tmp_path)
    curve, x = data.cells["CartPole-v1", "rnd"].curves["game_return"], data.grids["CartPole-v1"]
    assert len(x) == POINTS
    assert curve.mean == pytest.approx(x / 10, abs=1e-6)  # both climb by 0.1 per step; the second stops half-way
    assert np.isnan(curve.low[x > 500]).all()  # one seed has no interval
    assert not np.isnan(curve.low[(x > 200) & (x < 500)]).any()
    assert data.cells["CartPole-v1", "rnd"].unfinished == 1


def test_the_bonus_size_is_relative_and_its_mean_geometric(tmp_path):
    for seed, growth in enumerate((1.0, 4.0)):
        run = write_run(tmp_path / str(seed), made_up("CartPole-v1", "rnd", seed), 20)
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        for i, row in enumerate(rows):
            size = 3.0 * (growth if i >= 10 else 1.0)
            row |= {"reward/global": 0.6 * size, "reward/global_std": 0.8 * size}
            row |= {"reward/local": 0.0, "reward/local_std": 0.0}
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    curve = made(tmp_path).cells["CartPole-v1", "rnd"].curves["bonus_size"]
    assert (curve.mean[0], curve.mean[-1]) == pytest.approx((1.0, 2.0))
    assert 0 < curve.low[-1] < 2.0 < curve.high[-1]


def test_scores_are_normalized_per_family(grid):
    data = made(grid)
    atari = family_stats(data, "atari")
    assert isinstance(atari, FamilyStats)
    assert (atari.seeds, atari.baseline) == (3, "ppo")
    human = np.mean([(301 - 227.8) / (7127.7 - 227.8), (301 - 1.7) / (30.5 - 1.7)])
    assert atari.aggregates["mmrs"]["mean"].value == pytest.approx(human)
    bullet = family_stats(data, "bullet")
    assert bullet.aggregates["mmrs"]["mean"].value == pytest.approx(301 / 1680)
    other = family_stats(data, "other")
    assert other.aggregates["mmrs"]["iqm"].value == pytest.approx((301 - 100) / 202, abs=0.01)
    assert other.improvements[1].chance.value == 1.0
    assert other.improvements[1].games[0].difference == 200.0


def test_statistics_use_the_games_that_all_have(grid, tmp_path):
    shutil.copytree(grid, tmp_path / "copy")
    for seed in range(3):
        shutil.rmtree(tmp_path / "copy" / f"ALE-Alien-v5-rnd-{seed}")
    shutil.rmtree(tmp_path / "copy" / "ALE-Breakout-v5-mmrs-2")
    data = made(tmp_path)
    atari = family_stats(data, "atari")
    assert (atari.games, atari.seeds, atari.left_out) == (("ALE/Breakout-v5",), 2, ("Alien",))
    for seed in range(3):
        shutil.rmtree(tmp_path / "copy" / f"ALE-Breakout-v5-mmrs-{seed}", ignore_errors=True)
    assert "two seeds" in family_stats(made(tmp_path), "atari")
    assert "two methods" in family_stats(made(grid / "CartPole-v1-rnd-0"), "other")


def test_tables_hold_the_papers_scores_too_with_the_best_in_bold(grid):
    atari = score_tables(made(grid))[0]
    (alien, entries, published) = atari.rows[0]
    assert (alien, [entry.best for entry in entries]) == ("ALE/Alien-v5", [False, False, True])
    assert entries[2].text == "301.00 ± 1.00"
    assert entries[2].paper == "2.10k ± 71.71"
    assert [entry.paper_best for entry in entries] == [False, False, True]
    assert dict(zip(atari.sources, published, strict=True))["cleanrl"] == "1736±69"
    text = to_markdown(atari)
    assert "**301.00 ± 1.00** [298.52, 303.48] (3 seeds); paper **2.10k ± 71.71**" in text
    assert "Runs here take 10,000,000 steps, the paper's took 10,000,000." in text
    latex = to_latex(atari)
    assert r"$\mathbf{301.00 \pm 1.00}$" in latex
    assert latex.count(r"\\") == 2 * 2 + 1


def test_a_game_of_mujoco_is_not_the_papers_game_of_bullet(tmp_path):
    bullet, mujoco = ("AntBulletEnv-v0", "HopperBulletEnv-v0"), ("Ant-v4", "Ant-v5", "Hopper-v5", "Humanoid-v5")
    for env, bonus, seed in itertools.product((*bullet, *mujoco), ("none", "mmrs"), range(2)):
        config = made_up("CartPole-v1", bonus, seed)  # made with the id that is replaced: MuJoCo may not be installed
        config = replace(config, env=replace(config.env, id=env))
        write_run(tmp_path / f"{env}-{bonus}-{seed}", config, score=100.0 + seed)
    data = made(tmp_path)
    assert (data.family("bullet"), data.family("other")) == (bullet, mujoco)
    papers, others = score_tables(data)
    assert [table.family for table in (papers, others)] == ["bullet", "other"]
    assert all(entry.paper for _, entries, _ in papers.rows for entry in entries)
    assert not any(entry.paper for _, entries, _ in others.rows for entry in entries)
    assert not any(score for _, _, published in others.rows for score in published)
    assert {row["source"] for row in csv.DictReader(io.StringIO(to_csv(others)))} == {"this report"}
    assert "paper" in {row["source"] for row in csv.DictReader(io.StringIO(to_csv(papers)))}
    assert "Ant-v5" in to_latex(others) and "Ant-v" not in to_latex(papers)
    assert family_stats(data, "bullet").games == bullet
    assert family_stats(data, "other").games == mujoco


def test_the_papers_best_is_bold_though_it_has_no_run_here(tmp_path):
    write_grid(tmp_path, ("ALE/Alien-v5",), ("none", "rnd"), seeds=1)
    (table,) = score_tables(made(tmp_path))
    assert [entry.paper_best for entry in table.rows[0][1]] == [False, False]  # MMRS is
    ours = [row for row in csv.DictReader(io.StringIO(to_csv(table))) if row["source"] == "this report"]
    assert [(row["mean"], row["std"], row["low"]) for row in ours] == [("100.0", "", ""), ("200.0", "", "")]


def test_unfinished_runs_are_counted_where_they_are_compared(tmp_path):
    for seed in range(2):
        for bonus in ("none", "rnd"):
            write_run(tmp_path / f"{bonus}{seed}", made_up("CartPole-v1", bonus, seed), done=0.5 if seed else 1.0)
    assert family_stats(made(tmp_path), "other").unfinished == 2
    page = report(ReportConfig((tmp_path,), out=tmp_path / "out"), quiet()).read_text()
    assert "not finished count by their latest value: 2." in page


def test_every_file_is_written(tmp_path):
    out = quiet()
    write_grid(tmp_path / "runs", ("ALE/Alien-v5",), ("none", "mmrs"), seeds=3)
    page = report(ReportConfig((tmp_path / "runs",), out=tmp_path / "out", figures=True), out)
    assert page.read_text().startswith("<!doctype html>")
    assert "runs: 6, games: 1, methods: 2" in out.file.getvalue()
    tables = sorted(path.name for path in (tmp_path / "out" / "tables").iterdir())
    assert tables == [f"atari-game_return.{ending}" for ending in ("csv", "md", "tex")]
    rows = list(csv.DictReader((tmp_path / "out" / "tables" / "atari-game_return.csv").open()))
    mine = [r for r in rows if (r["game"], r["method"], r["source"]) == ("ALE/Alien-v5", "mmrs", "this report")]
    assert [(float(r["mean"]), r["seeds"]) for r in mine] == [(201.0, "3")]
    assert {r["source"] for r in rows} >= {"this report", "paper"}
    figures = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    names = ("learning-game_return", "vanishing-bonus_size", "terms-mmrs", "profile-atari")
    assert figures >= {f"{name}.{kind}" for name in names for kind in ("pdf", "svg", "png")}
    assert (tmp_path / "out" / "figures" / "learning-game_return.pdf").read_bytes().startswith(b"%PDF")


def test_names_do_no_harm_in_tables(tmp_path):
    config = made_up("CartPole-v1", "rnd", 0)
    hostile = replace(config, env=replace(config.env, id="=cmd|' /C calc'\n!A0_$%&{}<script>"))
    write_run(tmp_path / "a", hostile)
    write_run(tmp_path / "b", replace(hostile, bonus=replace(config.bonus, name="$x$<img onerror=1>")))
    report(ReportConfig((tmp_path,), out=tmp_path / "out", figures=True), quiet())
    (table,) = (tmp_path / "out" / "tables").glob("*.csv")
    assert all(not row[0].startswith("=") for row in csv.reader(table.open()))
    latex = table.with_suffix(".tex").read_text()
    assert r"\_\$\%\&\{\}" in latex
    markdown = table.with_suffix(".md").read_text()
    assert r"\|" in markdown
    assert sum(line.startswith("|") for line in markdown.splitlines()) == 3  # a name of two lines is still one row
