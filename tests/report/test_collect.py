"""Runs that `mmrs report` finds in folders of every kind, and the problems it reports."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from tests.support.runs import made, made_up, quiet, write_run

from mmrs.errors import InputError
from mmrs.report.build import build_report
from mmrs.report.collect import collect
from mmrs.report.command import ReportConfig, report
from mmrs.report.tables import score_tables
from mmrs.runs.config_json import to_json
from mmrs.runs.history import mark_finished
from mmrs.runs.records import POINTS


def test_a_long_record_is_sampled_with_both_its_ends(tmp_path):
    write_run(tmp_path / "a", made_up("CartPole-v1", "rnd", 0, steps=3000), 3000, score=42.0)
    (run,) = collect([tmp_path]).runs
    assert (run.path / "metrics.jsonl").stat().st_size > 1 << 20  # else it would be read whole
    assert (run.bad_lines, len(run.columns["step"])) == (0, POINTS)
    assert (run.columns["step"][0], run.step, run.last("game_return")) == (1, 3000, 42.0)
    assert run.columns["game_return"] == pytest.approx(42.0 * run.columns["step"] / 3000)
    gaps = np.diff(run.columns["step"])
    assert gaps.min() > 0
    assert np.median(gaps) == pytest.approx(3000 / POINTS, rel=0.1)
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3001, "game_ret')
    (run,) = collect([tmp_path]).runs
    assert (run.bad_lines, run.step) == (1, 3000)


def test_metrics_that_some_rows_lack_are_gaps(tmp_path):
    run = write_run(tmp_path / "a", made_up("CartPole-v1", "rnd", 0), 4, score=4.0)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    del rows[0]["game_return"]
    rows[1]["game_return"] = None
    rows[2]["game_return"] = "three"
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (record,) = collect([tmp_path]).runs
    assert np.isnan(record.columns["game_return"][:3]).all()
    assert record.columns["game_return"][3] == 4.0
    assert record.columns["episode_return"].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_runs_are_found_at_any_depth_once_and_longest_first(grid, tmp_path):
    a, b = tmp_path / "one" / "deep", tmp_path / "two"
    shutil.copytree(grid, a)
    config = made_up("CartPole-v1", "rnd", 0)
    write_run(b / "other-name", config, 4, done=0.2, score=7.0)  # the same run on another machine, not so far
    shutil.copytree(grid / "CartPole-v1-rnd-1", a / "CartPole-v1-rnd-0" / "videos" / "inside")  # not a run of its own
    inside = a / "CartPole-v1-rnd-0" / "videos" / "inside" / "config.json"
    inside.write_text(inside.read_text().replace('"seed": 1', '"seed": 77'))
    found = collect([tmp_path, a, a / "CartPole-v1-rnd-0"])
    assert len(found.runs) == 36
    assert any("more than once" in problem for problem in found.problems)
    data = build_report(found)
    assert data.cells["CartPole-v1", "rnd"].scores["game_return"][0] == 200.0


def test_different_settings_are_different_methods(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", made_up("CartPole-v1", "mmrs", seed))
    config = made_up("CartPole-v1", "mmrs", 0)
    write_run(tmp_path / "b", replace(config, bonus=replace(config.bonus, options=("k=10", "lambda_g=0.2"))))
    write_run(tmp_path / "c", replace(config, seed=5, device="cpu", root=tmp_path, name="c", quiet=True))
    data = made(tmp_path)
    assert set(data.methods) == {"mmrs", "mmrs (bonus.options=k=10 lambda_g=0.2)"}
    assert len(data.cells["CartPole-v1", "mmrs"].runs) == 4


def test_settings_that_a_version_did_not_have_label_its_runs(tmp_path):
    for group, seeds in enumerate((3, 1, 1)):
        for seed in range(seeds):
            path = write_run(tmp_path / f"{group}{seed}", made_up("CartPole-v1", "mmrs", seed), score=10.0 + group)
            data = json.loads((path / "config.json").read_text())
            if group == 1:
                del data["config"]["num_steps"]
            elif group == 2:
                data["config"]["new"] = 3
            (path / "config.json").write_text(json.dumps(data))
    data = made(tmp_path)
    assert set(data.methods) == {"mmrs", "mmrs (num_steps=absent)", "mmrs (new=3)"}
    assert data.cells["CartPole-v1", "mmrs"].scores["game_return"] == {0: 10.0, 1: 10.0, 2: 10.0}


def test_missing_cells_are_known_from_the_sweep(tmp_path):
    configs = [made_up("CartPole-v1", bonus, seed) for bonus in ("none", "rnd") for seed in range(2)]
    names = {"none": "ppo"}
    cells = [
        {"name": f"{c.bonus.name}-{c.seed}", "kind": "train", "env": c.env.id, "seed": c.seed, "config": to_json(c),
         "method": names.get(c.bonus.name, c.bonus.name)}
        for c in configs
    ]  # fmt: skip
    cells.append({"name": "maze", "kind": "maze", "env": "maze", "method": "jfi", "seed": 0})
    sweep = {"schema": 1, "suite": "smoke", "version": "0.1.0", "command": "mmrs sweep smoke", "cells": cells}
    (tmp_path / "sweep.json").write_text(json.dumps(sweep))
    assert collect([tmp_path]).problems == ("1 of the sweep's 1 tables are not finished yet.",)
    (tmp_path / "maze").mkdir()
    (tmp_path / "maze" / "job.json").write_text("{}")
    assert "1 tables are not finished" in collect([tmp_path]).problems[0]
    mark_finished(tmp_path / "maze", 0)
    empty = made(tmp_path)  # before the first run has started
    assert empty.problems == ()
    assert (empty.missing_runs, empty.envs, empty.methods) == (4, ("CartPole-v1",), ("ppo", "rnd"))
    assert all(entry.text == "missing" for table in score_tables(empty) for _, row, _ in table.rows for entry in row)
    page = report(ReportConfig((tmp_path,), out=tmp_path / "out"), quiet()).read_text()
    assert "4 runs of the sweep are not there yet" in page
    write_run(tmp_path / "none-0", configs[0])
    (tmp_path / "none-0" / "error.txt").write_text("Traceback: <b>boom</b>")
    write_run(tmp_path / "none-1", configs[1], done=0.5)
    (tmp_path / "none-1" / "error.txt").write_text("Traceback: boom")
    data = made(tmp_path)
    assert data.missing_runs == 2
    states = [run.state for run in data.cells["CartPole-v1", "ppo"].runs]
    assert states == ["finished", "failed"]
    ((_, (ours, missing), _),) = score_tables(data)[0].rows
    assert (ours.seeds, missing.text, missing.seeds) == ("2 seeds, 1 not finished", "missing", "no run")


def test_a_run_is_labeled_with_the_name_in_its_sweep(tmp_path):
    config = made_up("CartPole-v1", "mmrs", 0)
    literal = replace(config, bonus=replace(config.bonus, options=("preset=paper",)))
    cells = [
        {"name": name, "kind": "train", "env": "CartPole-v1", "method": name, "seed": 0}
        for name in ("mmrs", "mmrs-paper")
    ]
    (tmp_path / "sweep.json").write_text(json.dumps({"schema": 1, "suite": "smoke", "cells": cells}))
    write_run(tmp_path / "mmrs", config)
    write_run(tmp_path / "mmrs-paper", literal)
    data = made(tmp_path)
    assert (data.methods, data.missing_runs) == (("mmrs", "mmrs-paper"), 0)


def test_half_written_records_are_used_and_reported(tmp_path):
    config = made_up("CartPole-v1", "rnd", 0)
    write_run(tmp_path / "half", config, 8, score=80.0, tail='{"step": 99999, "game_ret')
    write_run(tmp_path / "torn", replace(config, seed=1), 8, score=80.0, tail="\x00\x00garbage\n[1]\n{not json}\n")
    write_run(tmp_path / "none", replace(config, seed=2), 0)
    found = collect([tmp_path])
    assert {run.path.name: (run.rows, run.bad_lines) for run in found.runs} == {
        "half": (8, 1),
        "torn": (9, 3),
        "none": (0, 0),
    }
    text = " ".join(found.problems)
    assert "4 half-written or damaged lines" in text
    assert "every good line is used" in text
    assert "No metrics yet from none" in text
    assert build_report(found).cells["CartPole-v1", "rnd"].scores["game_return"] == {0: 80.0, 1: 80.0}
    page = report(ReportConfig((tmp_path,), out=tmp_path / "out"), quiet()).read_text()
    assert "4 half-written or damaged lines" in page


def test_different_versions_are_reported(tmp_path):
    config = made_up("CartPole-v1", "rnd", 0)
    write_run(tmp_path / "a", config, version="0.1.0")
    write_run(tmp_path / "b", replace(config, seed=1), version="0.2.0")
    data = json.loads((tmp_path / "b" / "config.json").read_text())
    data["config"]["a_new_setting"] = 3  # which this version could not continue, but can report
    (tmp_path / "b" / "config.json").write_text(json.dumps(data))
    found = collect([tmp_path])
    assert "different versions of mmrs: 1 by 0.1.0, 1 by 0.2.0" in found.problems[0]
    shutil.rmtree(tmp_path / "b")
    with (tmp_path / "a" / "attempts.jsonl").open("a") as file:
        file.write('{"event": "start", "step": 5, "version": "0.3.0"}\n')
    assert "1 by 0.1.0 then 0.3.0" in collect([tmp_path]).problems[0]


def test_errors_say_what_to_do(tmp_path, grid):
    with pytest.raises(InputError, match=r"there is no run in .*mmrs train"):
        collect([tmp_path])
    with pytest.raises(InputError, match=r"there is no folder .*Did you mean"):
        collect([grid.parent / (grid.name + "x")])
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text("{}")
    with pytest.raises(InputError, match="not the configuration of a run"):
        collect([tmp_path])
    with pytest.raises(InputError, match="Did you mean 'game_return'"):
        report(ReportConfig((grid,), metrics=("game_retrun",), out=tmp_path / "out"))
    with pytest.raises(InputError, match="at least one folder"):
        report(ReportConfig(()))


def test_links_are_not_followed(tmp_path):
    write_run(tmp_path / "run", made_up("CartPole-v1", "rnd", 0))
    secret = tmp_path / "secret"
    secret.write_text('{"step": 1}\n')
    (tmp_path / "run" / "metrics.jsonl").unlink()
    (tmp_path / "run" / "metrics.jsonl").symlink_to(secret)
    with pytest.raises(InputError, match="there is no run"):
        collect([tmp_path])


def test_folders_that_are_skipped_are_reported(tmp_path, monkeypatch):
    elsewhere = write_run(tmp_path / "disk" / "far", made_up("CartPole-v1", "rnd", 1))
    near = write_run(tmp_path / "runs" / "near", made_up("CartPole-v1", "rnd", 0))
    (tmp_path / "runs" / "far").symlink_to(elsewhere)
    (tmp_path / "runs" / "latest").symlink_to(near)
    found = collect([tmp_path / "runs"])
    assert len(found.runs) == 1
    (problem,) = found.problems
    assert problem.startswith(f"{tmp_path / 'runs' / 'far'} is a link to a folder and was not followed")
    assert collect([tmp_path / "runs", tmp_path / "disk"]).problems == ()

    (tmp_path / "runs" / "closed").mkdir()
    scandir = os.scandir

    def closed(path):
        if str(path).endswith("closed"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)  # whoever may read everything cannot be refused by the disk
    assert any("closed cannot be read (Permission denied)" in problem for problem in collect([tmp_path]).problems)


def test_a_configuration_with_an_infinite_value_is_left_out(tmp_path):
    write_run(tmp_path / "a", made_up("CartPole-v1", "rnd", 0))
    bad = write_run(tmp_path / "b", made_up("CartPole-v1", "rnd", 1)) / "config.json"
    bad.write_text(bad.read_text().replace('"seed": 1', '"seed": Infinity'))
    found = collect([tmp_path])
    assert len(found.runs) == 1
    assert "not the configuration of a run. It is left out" in found.problems[0]
    bad.unlink()
    assert "has a record but no config.json" in collect([tmp_path]).problems[0]
