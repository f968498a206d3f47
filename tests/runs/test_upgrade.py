"""Runs of schema 1, written by the first version, are resumed to the rows they had then, and evaluated and audited."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from tests.support.runs import TIMES, rows

from mmrs.audit import AuditConfig, audit
from mmrs.errors import StorageError
from mmrs.report.collect import collect
from mmrs.runs import upgrade
from mmrs.runs.config import BonusConfig, TrainConfig
from mmrs.runs.config_json import to_json
from mmrs.runs.evaluate import EvalConfig, evaluate
from mmrs.runs.folder import RunFolder
from mmrs.runs.metrics_log import parse_row
from mmrs.runs.presets import ALL_PRESETS
from mmrs.runs.records import read_run
from mmrs.runs.train import resume
from mmrs.runs.video import VideoConfig, video
from mmrs.storage import checkpoint as store

OLD = Path(__file__).parents[1] / "fixtures" / "runs_v1"
"""Stopped runs with the rows that they would have got; two of them were stopped before their first checkpoint."""
NAMES = sorted(path.name for path in OLD.iterdir())


@pytest.fixture
def old(tmp_path) -> Path:
    """A copy of the old runs."""
    return Path(shutil.copytree(OLD, tmp_path / "runs"))


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


@pytest.mark.parametrize("name", NAMES)
def test_an_old_run_is_resumed_to_its_old_numbers(old, name):
    run, code = resume(old / name, quiet=True)
    assert code == 0
    expected = [parse_row(line) for line in (old / name / "expected.jsonl").read_bytes().splitlines()]
    found = rows(run.path)
    assert len(found) == len(expected) == 4
    for row, wanted in zip(found, expected, strict=True):
        assert row.keys() == wanted.keys() - TIMES
        # Other processors round otherwise; where the fixtures were made the rows are equal.
        np.testing.assert_allclose([row[key] for key in row], [wanted[key] for key in row], rtol=1e-3, atol=1e-6)
    assert store.load(run.checkpoints)[1]["schema"] == upgrade.SCHEMA
    assert json.loads(run.config.read_text())["schema"] == 1, "the configuration of a run does not change"


def test_an_old_run_is_evaluated_audited_reported_and_shown(old, monkeypatch):
    path = old / "cartpole-landmarks"
    result = evaluate(EvalConfig(path, episodes=3), quiet())
    assert (result.step, len(result.full_game.values)) == (128, 3)
    assert audit(AuditConfig(path, steps=64), quiet()) in (0, 1)
    findings = json.loads((path / "audit.json").read_text())["findings"]
    assert len(findings) == 8
    for finding in findings:
        finding["figure"] = finding.pop("measured")
    (path / "audit.json").write_text(json.dumps({"findings": findings}))
    record = read_run(path)
    assert all(finding["measured"] for finding in record.findings)
    assert record.config["bonus"]["center"] is True
    assert np.isfinite(record.columns["episode_return"][-1])
    assert {run.method for run in collect([old]).runs} == {"landmarks", "mmrs", "exp_decay", "ppo"}
    pytest.importorskip("imageio_ffmpeg")
    assert video(VideoConfig(path, max_steps=3), quiet()).stat().st_size


def test_a_checkpoint_that_does_not_fit_is_refused_with_a_remedy(old, monkeypatch):
    monkeypatch.setattr(upgrade, "BUFFERS", {})
    run = old / "cartpole-landmarks"
    for use in (lambda: resume(run, quiet=True), lambda: audit(AuditConfig(run), quiet())):
        with pytest.raises(StorageError, match=r"does not fit this version of mmrs .*attempts\.jsonl names it"):
            use()


def test_options_given_as_text_are_renamed():
    bonus = {"name": "landmarks", "options": ["admit=elsewhere", "k=3", "scale=spread", "admit"]}
    upgraded = upgrade.upgrade_config({"bonus": bonus})["bonus"]
    assert upgraded["options"] == ["insert_filter=multi_env", "k=3", "input_scale=std", "insert_filter"]
    decayed = {"bonus": {"name": "rnd_decay", "options": ["scope=life"]}, "methods": ["jfi", "rnd_decay"]}
    assert upgrade.upgrade_config(decayed) == {
        "bonus": {"name": "exp_decay", "options": ["scope=lifelong"]}, "methods": ["jfi", "exp_decay"],
    }  # fmt: skip


def test_an_option_that_was_renamed_within_a_schema_is_read(tmp_path):
    run = RunFolder.create(tmp_path, "a")
    run.write_config(replace(TrainConfig(), name="a", bonus=BonusConfig("landmarks", ("scale=std",))), {"scale": "std"})
    assert run.read_config(TrainConfig).bonus.options == ("input_scale=std",)
    assert run.read_bonus() == {"input_scale": "std"}


def test_present_names_stay():
    for config in ALL_PRESETS.values():
        assert upgrade.upgrade_config(to_json(config)) == to_json(config)


def test_a_new_run_has_the_present_schema(tmp_path):
    run = RunFolder.create(tmp_path, "a")
    run.write_config(replace(TrainConfig(), name="a"))
    assert json.loads(run.config.read_text())["schema"] == upgrade.SCHEMA


def test_quotes_of_an_option_stay_where_nothing_was_renamed():
    assert upgrade._upgrade_option("rnd", "label='12'") == "label='12'"
    assert upgrade._upgrade_option("landmarks", "scale='spread'") == "input_scale=std"
