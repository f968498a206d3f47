"""Methods side by side: stopped by Ctrl-C, continued by the same command, reported as a table, a page and a video."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from rich.console import Console

from mmrs.cli import main
from mmrs.errors import InputError
from mmrs.runs.config import BonusConfig
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.presets import default_config
from mmrs.runs.train import train
from mmrs.storage import checkpoint as store
from mmrs.sweeps.compare import make_specs, print_results
from mmrs.sweeps.compare_result import _bonus, read_comparison

STEPS = 12 * 1024
NAMES = ("ppo-0", "landmarks-0")


def test_by_default_mmrs_is_trained_on_keyrooms():
    config = default_config()
    assert (config.env.id, config.bonus.name, config.steps) == ("mmrs/KeyRooms-v0", "mmrs", 102_400)
    for name in ("KeyRooms", "MultiRooms", "NoisyTV"):
        assert replace(default_config(f"mmrs/{name}-v0"), env=config.env) == config


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two methods, cut by Ctrl-C in the middle and started again."""
    root = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-m", "mmrs.cli", "train", "--compare", "ppo", "landmarks"]
    command += ["--steps", str(STEPS), "--checkpoint-every", "1000", "--root", str(root), "--name", "both"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    records = [root / "both" / name / "metrics.jsonl" for name in NAMES]
    while not all(record.exists() and record.stat().st_size for record in records):
        time.sleep(0.02)
        assert first.poll() is None, first.communicate()
    first.send_signal(signal.SIGINT)
    printed = first.communicate(timeout=60)[1]
    saved = {name: [c.step for c in store.checkpoints(root / "both" / name / "checkpoints")] for name in NAMES}
    env = {**os.environ, "COLUMNS": "120"}
    second = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    return {"folder": root / "both", "code": first.returncode, "printed": printed, "saved": saved, "second": second}


def test_ctrl_c_saves_every_run_and_says_how_to_continue(compared):
    assert compared["code"] == 130, compared["printed"]
    assert "The same command continues" in compared["printed"]
    assert all(len(steps) == 1 and 0 < steps[0] <= STEPS for steps in compared["saved"].values()), compared["saved"]
    assert any(steps[0] < STEPS for steps in compared["saved"].values())


def test_the_same_command_continues_to_the_end_and_prints_the_results(compared):
    second = compared["second"]
    assert second.returncode == 0, second.stderr
    for name in NAMES:
        steps = [row["step"] for row in read_metrics(compared["folder"] / name / "metrics.jsonl").rows]
        assert steps == list(range(1024, STEPS + 1, 1024))
        assert re.search(rf"^{name}: done$", second.stderr, re.MULTILINE)
        starts = (compared["folder"] / name / "attempts.jsonl").read_text().count('"start"')
        assert starts == 1 + (compared["saved"][name][0] < STEPS)
    assert re.search(r"ppo +0% +never", second.stdout)
    assert "index.html" in second.stdout


def test_visits_and_curves_are_those_of_the_runs(compared):
    config = replace(default_config(), steps=STEPS)
    comparison = read_comparison(compared["folder"], config, make_specs(config, ("ppo", "landmarks"), 1))
    for method, name in zip(comparison.methods, NAMES, strict=True):
        rows = read_metrics(compared["folder"] / name / "metrics.jsonl").rows
        episodes = sum(row["episodes"] for row in rows)
        assert method.visits.sum() == STEPS + 8 + episodes  # one per step and one per start of an episode
        assert method.runs[0].last("env/coverage") == rows[-1]["env/coverage"]
        assert not method.visits[comparison.world == 1].any()
    assert not np.array_equal(*(method.visits for method in comparison.methods))
    settings = {name: text for name, text in comparison.settings.items() if name.startswith("bonus")}
    landmarks = "weight 0.03, centered, divided by the standard deviation of its reward"
    assert settings == {"bonus of ppo": "none", "bonus of landmarks": landmarks}
    bonus = BonusConfig("mmrs", options=("preset=paper", "k=3"), final_weight=0.5)
    specs = make_specs(replace(config, bonus=bonus), ("mmrs",), 1)
    assert _bonus(specs[0].config["bonus"]) == "weight 1, falling to 0.5, preset=paper, k=3"


def test_the_page_holds_the_video_and_the_plan_names_every_run(compared):
    page = (compared["folder"] / "index.html").read_text()
    assert "data:video/mp4;base64," in page
    assert (compared["folder"] / "video.mp4").stat().st_size > 1000
    assert "landmarks" in page
    plan = json.loads((compared["folder"] / "sweep.json").read_text())
    assert [spec["name"] for spec in plan["cells"]] == list(NAMES)


def test_each_method_has_its_default_bonus_unless_it_is_the_one_configured():
    config = default_config("mmrs/KeyRooms-v0", "mmrs")
    config = replace(config, bonus=replace(config.bonus, options=("k=64",)))
    specs = make_specs(config, ("ppo", "mmrs", "rnd", "rnd"), 2)
    assert [spec.name for spec in specs] == ["ppo-0", "mmrs-0", "rnd-0", "ppo-1", "mmrs-1", "rnd-1"]
    bonus = {spec.name: spec.config["bonus"] for spec in specs}
    assert bonus["ppo-0"]["name"] == "none"
    assert bonus["mmrs-1"]["options"] == ["k=64"]
    assert bonus["rnd-0"] == bonus["rnd-1"] != bonus["ppo-0"]
    assert bonus["rnd-0"]["center"]
    with pytest.raises(InputError, match="Did you mean 'landmarks'"):
        make_specs(config, ("landmark",), 1)
    with pytest.raises(InputError, match="at least 1"):
        make_specs(config, ("ppo",), 0)


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ("--compare pppo", "Did you mean 'ppo'"),
        ("--compare", "names no method. Known: ppo, mmrs-paper"),
        ("--compare-seeds 3", "--compare-seeds needs --compare"),
        ("--compare ppo --compare-seeds 0", "expected at least 1"),
        ("--compare ppo jfi", "jfi counts the states of a Discrete observation space"),
        ("--compare ppo rnd --bonus.options k=3", "those of mmrs, which is not compared"),
        ("--compare ppo landmarks --bonus landmarks --bonus.options kk=3", "landmarks has no option 'kk'"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_trained(options, printed, capsys, tmp_path):
    assert main(["train", "--root", str(tmp_path), *options.split()]) == 2
    assert printed in capsys.readouterr().err.replace("\n", " ")
    assert not list(tmp_path.iterdir())


def test_a_run_that_fails_is_reported_and_the_others_have_their_page(tmp_path, capfd):
    options = ["--steps", "1024", "--root", str(tmp_path), "--name", "both", "--quiet"]
    assert main(["train", "--compare", "re3", *options]) == 0
    (tmp_path / "both" / "ppo-0").mkdir()
    (tmp_path / "both" / "ppo-0" / "config.json").write_text("{")
    (tmp_path / "both" / "index.html").unlink()
    capfd.readouterr()
    assert main(["train", "--compare", "ppo", "re3", *options]) == 1
    printed = capfd.readouterr()
    assert "ppo-0 failed" in printed.err
    assert re.findall(r"^ +(ppo|re3) ", printed.out, re.MULTILINE) == ["re3"]
    assert "re3" in (tmp_path / "both" / "index.html").read_text()


class Blind(CartPoleEnv):
    """An environment that draws nothing."""

    metadata = {"render_modes": []}  # noqa: RUF012  Gymnasium declares it so

    def __init__(self):
        super().__init__()


def test_what_cannot_be_recorded_has_a_page_all_the_same(tmp_path, capsys):
    gym.register("Blind-v0", Blind)
    config = replace(default_config("Blind-v0", "none"), steps=1024, root=tmp_path, name="ppo-0", quiet=True)
    assert train(config)[1] == 0
    with warnings.catch_warnings(action="ignore"):  # Gymnasium's own, on the render mode
        print_results(tmp_path, config, make_specs(config, ("ppo",), 1), Console(width=200))
    gym.registry.pop("Blind-v0")
    assert "No video: Blind-v0 draws no pictures" in capsys.readouterr().out
    assert "Return" in (tmp_path / "index.html").read_text()
