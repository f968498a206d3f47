"""Whole runs: exact resume, sameness, the bonus in the update, faults."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from tests.support.runs import rows, small

from mmrs.cli import main
from mmrs.errors import InputError, MmrsError, TrainingError
from mmrs.ppo.metrics import learning_metrics
from mmrs.rewards import PRESETS, REWARDS, RND, register
from mmrs.runs.build import bonus_settings, build_trainer
from mmrs.runs.config import BonusConfig, TrainConfig
from mmrs.runs.config_json import require_same_bonus
from mmrs.runs.history import is_finished
from mmrs.runs.presets import default_config
from mmrs.runs.signals import StopSignals
from mmrs.runs.train import resume, run_to_completion, train
from mmrs.storage import checkpoint as store


def weights(folder):
    tree = store.load(folder / "checkpoints")[1]["trainer"]
    return {**tree["network"], **{f"bonus.{k}": v for k, v in (tree["bonus"] or {}).items()}}


def same(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, b[name]), name
        else:
            assert str(value) == str(b[name]), name


CASES = [
    ("CartPole-v1", "none", 0.0), ("CartPole-v1", "mmrs", 0.0), ("CartPole-v1", "ride", 0.0),
    ("CartPole-v1", "rnd", 0.0), ("mmrs/Maze2D-v0", "jfi", 0.0), ("mmrs/Maze2D-v0", "mmrs", 0.0),
    ("mmrs/MultiRooms-v0", "mmrs", 0.0),
    ("HopperBulletEnv-v0", "none", 0.0), ("HopperBulletEnv-v0", "mmrs", 0.0), ("HopperBulletEnv-v0", "ride", 0.0),
    ("HopperBulletEnv-v0", "rnd", 0.0), ("ALE/Alien-v5", "none", 0.25), ("ALE/Alien-v5", "mmrs", 0.0),
    ("ALE/Alien-v5", "rnd", 0.25), ("ALE/Alien-v5", "ride", 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("env", "bonus", "sticky"), CASES)
def test_a_run_that_was_cut_equals_one_that_was_not(tmp_path, env, bonus, sticky):
    """Cut in a process of its own that is killed without warning; continued in this one."""
    whole = small(tmp_path, env, bonus, name="whole")
    whole = replace(whole, env=replace(whole.env, sticky=sticky))
    train(whole)
    cut = replace(whole, name="cut")
    script = (
        "import os, sys\n"
        "from dataclasses import replace\n"
        "from tests.support.runs import small\n"
        "from mmrs.runs import train as module\n"
        "from pathlib import Path\n"
        f"config = small(Path({str(tmp_path)!r}), {env!r}, {bonus!r}, name='cut')\n"
        f"config = replace(config, env=replace(config.env, sticky={sticky}))\n"
        "save = module.store.save\n"
        "module.store.save = lambda folder, step, tree: save(folder, step, tree) if step < 400 else os._exit(9)\n"
        "module.train(config)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": "."}, check=False, capture_output=True
    )
    assert ended.returncode == 9, ended.stderr.decode()
    assert len(rows(tmp_path / "cut")) >= 3  # rows after the last checkpoint will be written again
    resume(cut.root / "cut", quiet=True)
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")
    same(weights(tmp_path / "cut"), weights(tmp_path / "whole"))


def test_the_same_seed_gives_the_same_run_and_another_one_does_not(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(replace(small(tmp_path, bonus="mmrs", name=name), seed=seed))
    assert rows(tmp_path / "a") == rows(tmp_path / "b") != rows(tmp_path / "c")


def test_weight_zero_equals_plain_ppo_bit_for_bit(tmp_path):
    plain = small(tmp_path, name="plain")
    weighted = small(tmp_path, bonus="rnd", name="weighted")
    weighted = replace(weighted, bonus=replace(weighted.bonus, weight=0.0))
    train(plain)
    train(weighted)
    a = store.load(tmp_path / "plain" / "checkpoints")[1]["trainer"]["network"]
    b = store.load(tmp_path / "weighted" / "checkpoints")[1]["trainer"]["network"]
    same(a, b)
    heavy = replace(weighted, name="heavy", bonus=replace(weighted.bonus, weight=5.0))
    train(heavy)
    c = store.load(tmp_path / "heavy" / "checkpoints")[1]["trainer"]["network"]
    assert any(not torch.equal(a[name], c[name]) for name in a)


def test_metrics_have_every_term_and_the_share_of_the_bonus(tmp_path):
    run, code = train(small(tmp_path, bonus="mmrs"))
    assert code == 0
    last = rows(run.path)[-1]
    for name in ("global", "local", "extrinsic"):
        assert f"reward/{name}" in last
        assert 0 <= last[f"reward/{name}_share"] <= 1
    assert 0 < last["bonus_advantage_share"] < 1
    assert {"episode_return", "game_return", "kl", "entropy", "explained_variance", "policy_loss"} <= last.keys()
    assert json.loads(run.config.read_text())["config"]["bonus"]["name"] == "mmrs"
    assert list((run.path / "tensorboard").iterdir())


def test_discrete_runs_report_coverage_and_fairness(tmp_path):
    run, _ = train(small(tmp_path, "mmrs/Maze2D-v0", "jfi"))
    coverage = [row["coverage"] for row in rows(run.path)]
    assert coverage == sorted(coverage)
    assert 0 < coverage[0] <= 1
    assert 0 < rows(run.path)[-1]["fairness"] <= 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_resume(tmp_path, number, code):
    command = [sys.executable, "-m", "mmrs", "train", "--env", "CartPole-v1", "--bonus", "none"]
    command += ["--steps", "2000000", "--root", str(tmp_path), "--name", "run"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    record = tmp_path / "run" / "metrics.jsonl"
    while not record.exists() or not record.stat().st_size:
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert "--resume" in said
    step, tree = store.load(tmp_path / "run" / "checkpoints")
    assert rows(tmp_path / "run")[-1]["step"] == step == tree["trainer"]["updates"] * 1024


def test_a_number_that_is_not_finite_stops_the_run_and_reaches_no_disk(tmp_path):
    config = small(tmp_path, steps=100 * 128)
    trainer = build_trainer(config)
    original = trainer.ppo.update
    trainer.ppo.update = lambda batch, progress: {
        **original(batch, progress), "policy_loss": float("nan") if trainer.updates == 4 else 0.0,
    }  # fmt: skip
    with pytest.raises(TrainingError, match=r"policy_loss became nan in update 5 \(step 640\)"):
        for _ in trainer:
            pass
    trainer.collector.close()


def test_a_fault_in_a_run_names_the_last_good_checkpoint(tmp_path, monkeypatch):
    from mmrs.ppo.ppo import PPO  # noqa: PLC0415

    original = PPO.update
    calls = iter(range(100))
    broken = {"kl": float("inf")}
    monkeypatch.setattr(PPO, "update", lambda *a: {**original(*a), **(broken if next(calls) == 4 else {})})
    with pytest.raises(TrainingError, match=r"kl became inf.*The last checkpoint, of step 512"):
        train(small(tmp_path))
    assert "inf" not in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert len(rows(tmp_path / "run")) == 4


@pytest.mark.parametrize("every", [1, 50])
def test_a_bonus_that_explodes_is_named_with_its_step(tmp_path, every):
    config = small(tmp_path, bonus="rnd")
    config = replace(config, checkpoint_every=every, bonus=replace(config.bonus, options=("learning_rate=1e39",)))
    named = r"reward/rnd became (nan|inf) in update 2 \(step 256\)"
    if every == 1:  # what was learned cannot be saved, before anything is paid with it
        named = r"nothing was saved at step 128: .*trainer/bonus/.* is not finite.*The run has no checkpoint yet"
    with pytest.raises(TrainingError, match=named):
        train(config)
    assert not store.checkpoints(tmp_path / "run" / "checkpoints")


@pytest.mark.parametrize(("env", "kind"), [("FrozenLake-v1", "discrete"), ("Pendulum-v1", "vector")])
def test_only_vectors_are_standardized(tmp_path, env, kind):
    config = small(tmp_path, env)
    trainer = build_trainer(replace(config, env=replace(config.env, normalize=True)))
    row = next(iter(trainer))
    trainer.collector.close()
    assert trainer.ppo.network.observation.kind == kind
    assert (trainer.collector.normalizer is not None) == (kind == "vector")
    assert trainer.reward_memory is not None
    assert row["step"] == 128


def test_values_are_judged_head_by_head():
    generator = torch.Generator().manual_seed(0)
    returns = torch.randn(50, 4, 2, generator=generator) * torch.tensor([1.0, 0.01]) + torch.tensor([50.0, 0.0])
    constant = returns.mean((0, 1)).expand_as(returns)
    share = torch.tensor(0.5, dtype=torch.float64)
    metrics = learning_metrics(returns, constant, share)
    assert metrics == pytest.approx(
        {"explained_variance": 0.0, "explained_variance_intrinsic": 0.0, "bonus_advantage_share": 0.5}, abs=1e-6
    )
    halfway = torch.stack([returns[..., 0], constant[..., 1]], -1)
    assert learning_metrics(returns, halfway, share)["explained_variance"] == pytest.approx(1.0)
    assert learning_metrics(returns[..., :1], constant[..., :1], share).keys() == {
        "explained_variance", "bonus_advantage_share",
    }  # fmt: skip


def test_the_configuration_holds_every_option_of_the_bonus(tmp_path, monkeypatch):
    config = small(tmp_path, bonus="mmrs")
    run, _ = train(replace(config, bonus=replace(config.bonus, options=("k=16", "preset=author"))))
    saved = run.read_bonus()
    assert saved == {**asdict(PRESETS["author"]), "k": 16, "total_updates": 6}
    assert saved == asdict(build_trainer(run.read_config(TrainConfig)).bonus.config)
    start = json.loads((run.path / "attempts.jsonl").read_text().splitlines()[0])
    assert start["libraries"]["torch"] == torch.__version__
    # A version with another default must not go on as if nothing were.
    monkeypatch.setitem(PRESETS, "author", replace(PRESETS["author"], kmeans_iterations=3))
    assert resume(run.path, quiet=True)[1] == 0  # finished, and left as it is
    (run.path / "finished.json").unlink()
    with pytest.raises(InputError, match="kmeans_iterations was 10 and is 3 now"):
        resume(run.path, quiet=True)


def test_settings_are_compared_where_there_are_any():
    require_same_bonus({}, {"k": 3}, "run")  # the config.json of an older version has none
    require_same_bonus({"k": 3}, {"k": 3, "new": 1}, "run")
    with pytest.raises(InputError, match="old was 1 and is gone now"):
        require_same_bonus({"k": 3, "old": 1}, {"k": 3}, "run")


class OfOnesOwn(RND):
    def __init__(self, *spaces, clip=math.inf, shape=(2, 3), make=math.sqrt, seed=0):
        super().__init__(*spaces, seed=seed)


@pytest.mark.parametrize("name", [*sorted(REWARDS), "of_ones_own"])
def test_every_reward_lists_its_settings(name, monkeypatch):
    monkeypatch.delitem(REWARDS, "of_ones_own", raising=False)
    register("of_ones_own", OfOnesOwn)
    settings = bonus_settings(replace(TrainConfig(), bonus=BonusConfig(name)))
    assert settings and "seed" not in settings
    assert json.loads(json.dumps(settings, allow_nan=False)) == settings
    if name == "of_ones_own":
        assert settings == {"clip": "inf", "shape": [2, 3], "make": "math.sqrt"}


def test_an_unknown_reward_is_refused_before_a_folder_is_made(tmp_path):
    config = small(tmp_path)
    with pytest.raises(InputError, match="there is no reward 'rndd'"):
        run_to_completion(replace(config, bonus=BonusConfig("rndd")))
    assert not list(tmp_path.iterdir())


def test_a_signal_after_the_last_look_waits_for_the_next_update(tmp_path, monkeypatch):
    """A run that reports a save has saved, whenever the signal comes."""
    asked = iter([False, True, True, True])
    monkeypatch.setattr(StopSignals, "requested", property(lambda _: next(asked)))
    run, _ = train(replace(small(tmp_path), checkpoint_every=50))
    assert [one.step for one in store.checkpoints(run.checkpoints)] == [2 * 128]
    assert not is_finished(run.path)


class Fragile(CartPoleEnv):
    """Raises at its hundredth step."""

    def __init__(self, **_):
        super().__init__()
        self.stepped = 0

    def step(self, action):
        self.stepped += 1
        if self.stepped == 100:
            raise ValueError("boom")
        return super().step(action)


@pytest.mark.parametrize(("every", "saved"), [(2, "The last checkpoint, of step 256,"), (50, "The run has no check")])
def test_a_fault_of_an_environment_is_reported_in_whole_sentences(tmp_path, every, saved):
    gym.register("Fragile-v0", Fragile)
    try:
        with pytest.raises(TrainingError, match=rf"^Environment 0 raised ValueError: boom\. {saved}"):
            train(replace(small(tmp_path, "Fragile-v0"), checkpoint_every=every))
    finally:
        gym.registry.pop("Fragile-v0")


def test_an_existing_run_is_never_overwritten(tmp_path):
    run, _ = train(small(tmp_path))
    before = run.metrics.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        train(small(tmp_path))
    assert run.metrics.read_bytes() == before


def test_a_finished_run_stays_as_it_is(tmp_path):
    run, _ = train(small(tmp_path))
    before = run.metrics.read_bytes()
    resume(run.path, quiet=True)
    assert run.metrics.read_bytes() == before


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "a/b", "", "..", "x\n", "x" * 200])
def test_hostile_names_stay_inside_the_root(tmp_path, name):
    root = tmp_path / "root"
    if name:
        with pytest.raises(MmrsError):
            train(replace(small(root), name=name))
    assert [p.name for p in tmp_path.iterdir()] in ([], ["root"])


def test_another_number_of_threads_is_refused(tmp_path):
    run, _ = train(small(tmp_path))
    tree = store.load(run.checkpoints)[1]["trainer"]
    trainer = build_trainer(small(tmp_path))
    with pytest.raises(TrainingError, match="torch threads"):
        trainer.restore({**tree, "threads": 7})
    trainer.collector.close()


def test_the_command_line_fits_the_defaults_to_the_environment(tmp_path, capsys):
    assert main(["train", "--env", "CartPol-v1", "--bonus", "none"]) == 2
    assert "CartPole-v1" in capsys.readouterr().err
    assert main(["train", "--env", "CartPole-v1", "--bonus", "rdn", "--root", str(tmp_path)]) == 2
    assert "rnd" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    atari, bullet = default_config("Alien"), default_config("HopperBulletEnv-v0", "rnd")
    assert atari.env.reward_clip
    assert atari.ppo.learning_rate == 2.5e-4
    assert bullet.env.normalize
    assert (bullet.bonus.weight, bullet.bonus.center) == (0.03, True)
    literal = default_config("Alien", preset="paper-literal")
    assert literal.ppo.learning_rate == 2.5e-3
    with pytest.raises(InputError, match="atari"):
        default_config("Alien", preset="atar")


def test_bonus_options_reach_the_reward(tmp_path):
    config = small(tmp_path, bonus="mmrs")
    config = replace(config, bonus=replace(config.bonus, options=("k=7", "preset=paper")))
    trainer = build_trainer(config)
    assert trainer.bonus.config.k == 7
    assert trainer.bonus.config.novelty == "sum"
    trainer.collector.close()
    with pytest.raises(InputError, match="name=value"):
        build_trainer(replace(config, bonus=replace(config.bonus, options=("k",))))


def test_reward_normalization_divides_by_the_std_of_the_return(tmp_path):
    trainer = build_trainer(small(tmp_path, "HopperBulletEnv-v0"))
    trainer.collector.start(0)
    got = trainer.collector.collect()
    scaled = trainer._extrinsic(got).double()
    reward, done = got.reward.double().numpy(), got.rollout.done.numpy()
    trace, seen = np.zeros(4), []
    for t in range(len(reward)):
        trace = trace * 0.99 + reward[t]
        seen.extend(trace)
        expected = np.clip(reward[t] / np.std(seen), -10, 10)
        np.testing.assert_allclose(scaled[t].numpy(), expected, rtol=1e-4)
        trace = np.where(done[t], 0.0, trace)
    trainer.collector.close()
