"""sweep.json: written first, merged with what is there, refused where it cannot be."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mmrs.cli import main
from mmrs.errors import InputError, StorageError
from mmrs.storage.files import write_atomic
from mmrs.sweeps import plan as module
from mmrs.sweeps.job import CONFIGS
from mmrs.sweeps.plan import SCHEMA, Plan, read_plan, write_or_merge
from mmrs.sweeps.suites import SUITES, expand_suite


def plan(suite="smoke", **options):
    return Plan(SCHEMA, suite, "0.1.0", "mmrs sweep", {}, expand_suite(SUITES[suite], **options))


def test_a_plan_comes_back_as_written(tmp_path):
    written = write_or_merge(tmp_path / "new", plan(), CONFIGS)
    assert read_plan(tmp_path / "new") == written == plan()


def test_cells_are_added_and_none_is_dropped(tmp_path):
    write_or_merge(tmp_path, plan(seeds=1, methods=["ppo"]), CONFIGS)
    write_or_merge(tmp_path, plan(seeds=2, methods=["rnd"]), CONFIGS)
    joined = read_plan(tmp_path)
    assert {(c.method, c.seed) for c in joined.cells} == {("ppo", 0), ("rnd", 0), ("rnd", 1)}
    assert (joined.settings["seeds"], joined.settings["methods"]) == (2, ["ppo", "rnd"])


def test_sweeps_that_start_together_lose_nothing(tmp_path, monkeypatch):
    def slowly(path, content, **options):
        time.sleep(0.02)
        write_atomic(path, content, **options)

    monkeypatch.setattr(module, "write_atomic", slowly)
    methods = ["ppo", "rnd", "re3", "ride", "mmrs"]
    with ThreadPoolExecutor(len(methods)) as pool:  # each opens the lock for itself, as processes do
        list(
            pool.map(lambda method: write_or_merge(tmp_path / "new", plan(seeds=1, methods=[method]), CONFIGS), methods)
        )
    assert {spec.method for spec in read_plan(tmp_path / "new").cells} == set(methods)


def test_a_sweep_killed_while_it_wrote_its_plan_can_start_again(tmp_path):
    (tmp_path / ".sweep.json.part").write_text('{"schema"')
    assert write_or_merge(tmp_path, plan(), CONFIGS) == read_plan(tmp_path)


def test_other_settings_for_the_same_runs_are_refused(tmp_path):
    write_or_merge(tmp_path, plan(steps=256), CONFIGS)
    with pytest.raises(InputError, match="steps is 256 there and 512 here"):
        write_or_merge(tmp_path, plan(steps=512), CONFIGS)
    moved = replace(plan(steps=256), cells=tuple(
        replace(spec, config={**spec.config, "device": "cuda", "threads": 2}) for spec in plan(steps=256).cells
    ))  # fmt: skip
    assert write_or_merge(tmp_path, moved, CONFIGS).cells == moved.cells  # how, not what


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="not empty and holds no sweep"):
        write_or_merge(tmp_path, plan(), CONFIGS)
    write_or_merge(tmp_path / "atari", plan("atari"), CONFIGS)
    with pytest.raises(InputError, match="holds a sweep of atari, not of smoke"):
        write_or_merge(tmp_path / "atari", plan(), CONFIGS)
    with pytest.raises(InputError, match=r"it has no sweep.json\. Did you mean 'atari'"):
        read_plan(tmp_path / "ataari")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 1, "cells": [{}]}', '{"cells": 3'])
def test_a_plan_that_cannot_be_read_is_reported(tmp_path, text):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(StorageError, match="cannot be read"):
        read_plan(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["smokee"], "there is no suite 'smokee'. Did you mean 'smoke'?"),
        (["smoke", "--address", "ray://x"], "add --engine ray"),
        (["smoke", "--jobs", "0"], "jobs is 0"),
        (["smoke", "--gpu-share", "2", "--device", "cuda"], "gpu_share is 2.0"),
        (["smoke", "--threads", "0"], "threads is 0"),
    ],
)
def test_wrong_commands_are_one_line(tmp_path, capsys, arguments, words):
    assert main(["sweep", *arguments, "--out", str(tmp_path / "new")]) == 2
    assert words in capsys.readouterr().err


def test_runs_of_another_version_are_not_mixed_in_silently(tmp_path, capsys):
    arguments = ["sweep", "smoke", "--out", str(tmp_path), "--seeds", "1", "--dry-run"]
    write_or_merge(tmp_path, plan(seeds=1), CONFIGS)
    run = tmp_path / plan().cells[0].name
    run.mkdir()
    start = {"event": "start", "time": "", "step": 0, "version": "0.0.9", "command": ""}
    (run / "attempts.jsonl").write_text(json.dumps(start) + "\n")
    assert main(arguments) == 2
    assert "1 by mmrs 0.0.9; this is 0.1.0" in capsys.readouterr().err
    assert main([*arguments, "--mix-versions"]) == 0
    assert "0 of 6 runs are finished" in capsys.readouterr().out


def test_a_plan_of_an_earlier_version_is_read_and_merged_under_the_present_names(tmp_path):
    rooms = expand_suite(SUITES["rooms"], seeds=1, games=["mmrs/KeyRooms-v0"], methods=["rnd"])
    mazes = expand_suite(SUITES["maze"], seeds=1, games=["plus 5"], methods=["exp_decay"])
    present = Plan(SCHEMA, "mine", "0.1.0", "mmrs sweep", {}, (*rooms, *mazes))
    write_or_merge(tmp_path, present, CONFIGS)
    text = (tmp_path / "sweep.json").read_text()
    for old, new in (("normalise", "normalize"), ("centre", "center"), ('"rnd_decay"', '"exp_decay"')):
        assert f"{new}" in text
        text = text.replace(new, old)
    (tmp_path / "sweep.json").write_text(text)
    assert read_plan(tmp_path) == present
    assert write_or_merge(tmp_path, present, CONFIGS).cells == present.cells


def test_a_run_under_the_old_name_of_its_method_is_not_planned_twice(tmp_path):
    mazes = expand_suite(SUITES["maze"], seeds=2, games=["plus 5"], methods=["exp_decay"])
    plan = Plan(SCHEMA, "mine", "0.1.0", "mmrs sweep", {}, mazes[:1])
    write_or_merge(tmp_path, plan, CONFIGS)
    text = (tmp_path / "sweep.json").read_text()
    (tmp_path / "sweep.json").write_text(
        text.replace("exp_decay-0", "rnd_decay-0").replace('"exp_decay"', '"rnd_decay"')
    )
    merged = write_or_merge(tmp_path, replace(plan, cells=tuple(mazes)), CONFIGS)
    assert [(spec.method, spec.seed) for spec in merged.cells] == [("exp_decay", 0), ("exp_decay", 1)]
    assert merged.cells[0].name.endswith("rnd_decay-0")
