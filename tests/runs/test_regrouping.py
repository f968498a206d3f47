"""A run that stepped its environments in some number of groups goes on in another, as one that was never cut."""

import io
import json
import signal
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from tests.support.runs import rows, small

from mmrs.errors import InputError
from mmrs.runs import train as training
from mmrs.runs.build import build_trainer
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import require_same
from mmrs.runs.evaluate import EvalConfig, evaluate
from mmrs.runs.export import ExportConfig, export
from mmrs.runs.folder import RunFolder
from mmrs.runs.video import VideoConfig, video
from mmrs.storage import checkpoint as store


def environments(folder):
    return store.load(folder / "checkpoints")[1]["trainer"]["collector"]


def regroup(folder, groups):
    """As the default does where a run of a GPU goes on without one."""
    path = folder / "config.json"
    content = json.loads(path.read_text())
    content["config"]["env"]["groups"] = groups
    path.write_text(json.dumps(content))


def stopped(config, monkeypatch):
    """Train until the checkpoint of the second update."""
    save = store.save

    def stop_after(folder, step, tree):
        save(folder, step, tree)
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(training.store, "save", stop_after)
        run, code = training.train(config)
    assert (code, len(rows(run.path))) == (128 + signal.SIGTERM, 2)
    return run


def run_twice(tmp_path, monkeypatch, env, bonus, before, after, num_steps=32):
    """An uninterrupted run and one that was cut and went on in another number of groups; their rows."""
    config = replace(small(tmp_path, env, bonus, name="whole"), num_steps=num_steps, steps=5 * 4 * num_steps)
    config = replace(config, env=replace(config.env, groups=before, reseed_every=20))
    training.train(config)
    cut = stopped(replace(config, name="cut"), monkeypatch)
    regroup(cut.path, after)
    training.resume(cut.path, quiet=True)
    np.testing.assert_equal(environments(tmp_path / "cut"), environments(tmp_path / "whole"))
    return rows(tmp_path / "whole"), rows(tmp_path / "cut")


@pytest.mark.parametrize(("bonus", "before", "after"), [("mmrs", 4, 1), ("rnd", 1, 2)])
def test_vectors_give_the_same_metrics_to_the_bit(tmp_path, monkeypatch, bonus, before, after):
    whole, cut = run_twice(tmp_path, monkeypatch, "CartPole-v1", bonus, before, after)
    assert cut == whole
    assert sum(row["episodes"] for row in whole)


@pytest.mark.parametrize(("env", "normalize"), [("mmrs/KeyRooms-v0", False), ("CartPole-v1", True)])
def test_what_is_counted_together_is_not_split(tmp_path, env, normalize):
    config = small(tmp_path, env, "none")
    config = replace(config, env=replace(config.env, normalize=normalize, groups=2))
    with pytest.raises(InputError, match=r"Leave env\.groups out"):
        training.train(config)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 4)])
def test_images_give_the_same_games_and_metrics_up_to_rounding(tmp_path, monkeypatch, before, after):
    """Convolutions over another number of images add in another order; games go the same way all the same."""
    whole, cut = run_twice(tmp_path, monkeypatch, "ALE/Alien-v5", "none", before, after, num_steps=16)
    for a, b in zip(whole, cut, strict=True):
        assert a.keys() == b.keys()
        np.testing.assert_allclose([b[name] for name in a], list(a.values()), rtol=2e-3, atol=1e-5)
    games = ("episodes", "reward/extrinsic", "update", "step")
    assert [[row[name] for name in games] for row in cut] == [[row[name] for name in games] for row in whole]


def test_a_run_in_groups_is_evaluated_shown_and_exported(tmp_path, monkeypatch):
    config = small(tmp_path, name="run")
    run = stopped(replace(config, env=replace(config.env, groups=2)), monkeypatch)
    console = Console(file=io.StringIO())
    assert evaluate(EvalConfig(run.path, episodes=3), console).step == 256
    assert video(VideoConfig(run.path, max_steps=3), console).stat().st_size
    assert export(ExportConfig(run.path), console).stat().st_size


def test_another_number_of_environments_is_refused(tmp_path):
    config = small(tmp_path)
    training.train(config)
    tree = store.load(tmp_path / "run" / "checkpoints")[1]["trainer"]
    for count in (2, 8):
        trainer = build_trainer(replace(config, env=replace(config.env, num_envs=count, groups=2)))
        with pytest.raises(InputError, match=f"is of 4 environments, here are {count}"):
            trainer.collector.restore(tree["collector"])
        trainer.collector.close()


def test_the_number_of_groups_is_how_a_run_is_made_and_not_what_it_is(tmp_path):
    config = small(tmp_path)
    run = RunFolder.create(tmp_path, "run")
    run.write_config(config)
    require_same(run.read_config(TrainConfig), replace(config, env=replace(config.env, groups=4)), run.path)
    with pytest.raises(InputError, match="num_envs"):
        require_same(config, replace(config, env=replace(config.env, num_envs=8)), run.path)
