"""The Python interface: train, follow, resume, extend, load, act and evaluate, with real short runs."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient
from tests.support.losses import with_kl_penalty
from tests.support.runs import TIMES, rows, small

import mmrs
from mmrs.cli import main
from mmrs.errors import InputError
from mmrs.ppo.ppo import ppo_loss
from mmrs.report.collect import collect
from mmrs.runs.config import TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.history import is_finished
from mmrs.runs.train import resume, run_to_completion, train

ROOT = Path(__file__).parents[1]
SHORT = {"num_steps": 32, "checkpoint_every": 2, "device": "cpu", "seed": 3, "quiet": True, "env.num_envs": 4}
STEPS = 6 * 128


def trained(root: Path, name: str = "run", bonus="none", steps=STEPS, **fields) -> mmrs.Run:
    return mmrs.train("CartPole-v1", bonus, root=root, name=name, steps=steps, **{**SHORT, **fields})


def started(root: Path, name: str = "run", bonus="none", steps=STEPS, **fields):
    return mmrs.train_iter("CartPole-v1", bonus, root=root, name=name, steps=steps, **{**SHORT, **fields})


def untimed(row):
    return {name: value for name, value in row.items() if name not in TIMES}


def events(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


def raw_config(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory) -> mmrs.Run:
    return trained(tmp_path_factory.mktemp("runs"), bonus="rnd")


# --- training ---------------------------------------------------------------------------------------------------------


def test_the_import_needs_no_trainer():
    """Rewards alone must not wait for the command line's libraries."""
    script = (
        "import sys, mmrs\n"
        "loaded = {'mmrs.api', 'mmrs.ppo', 'mmrs.runs', 'rich', 'tyro', 'pandas', 'IPython'} & sys.modules.keys()\n"
        "assert not loaded, loaded\n"
        "assert {'train', 'load', 'Run'} <= set(dir(mmrs))\n"
        "from mmrs import train\n"
        "assert train is mmrs.train is sys.modules['mmrs.api'].train\n"
        "assert not hasattr(mmrs, 'trian')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_train_writes_the_run_that_the_command_writes(tmp_path):
    config = small(tmp_path, bonus="rnd", name="command")
    config = replace(config, ppo=replace(config.ppo, learning_rate=2e-3), bonus=replace(config.bonus, weight=0.5))
    train(config)
    seen = []
    ours = trained(
        tmp_path, "ours", {"name": "rnd", "weight": 0.5}, float(STEPS), callbacks=[seen.append],
        ppo={"learning_rate": 2e-3},
    )  # fmt: skip
    assert ours.finished
    assert ours.config == replace(config, name="ours")
    assert ours.path == (tmp_path / "ours").resolve()
    assert rows(ours.path) == rows(tmp_path / "command") == [untimed(row) for row in seen]


def test_options_of_the_bonus_are_a_mapping(tmp_path):
    options = {"learning_rate": 1e-3, "total_updates": None}
    ours = trained(tmp_path, bonus={"name": "rnd", "options": options}, steps=128)
    saved = raw_config(ours.path)["bonus"]
    assert {name: saved[name] for name in options} == options


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stepz": 3}, "unknown key 'stepz'.*'steps'"),
        ({"ppo": {"learning_rat": 1.0}}, "config.ppo has the unknown key 'learning_rat'.*'learning_rate'"),
        ({"ppo.epochs": "many"}, "config.ppo.epochs is 'many', expected of type int"),
        ({"ppo": 3}, "config.ppo is '3', expected an object"),
        ({"steps": 0.5}, "config.steps is '0.5'"),
        ({"name": "a/b"}, "cannot name a run"),
    ],
)
def test_wrong_fields_are_named_and_leave_no_folder(tmp_path, fields, message):
    with pytest.raises(InputError, match=message):
        mmrs.train("CartPole-v1", "none", **{"root": tmp_path / "runs", **SHORT, "steps": 128, **fields})
    assert not (tmp_path / "runs").exists()


def test_rows_come_one_by_one_and_a_broken_loop_is_saved_and_resumed_exactly(tmp_path):
    whole = trained(tmp_path, "whole", "rnd")
    seen = []
    for row in started(tmp_path, "cut", "rnd"):
        seen.append(untimed(row))
        assert len(rows(tmp_path / "cut")) == len(seen)
        if len(seen) == 3:
            break
    cut = mmrs.load(tmp_path / "cut")
    assert not cut.finished
    assert [event["event"] for event in events(cut.path)] == ["start", "stopped"]
    more = []
    cut = mmrs.resume(cut, callbacks=[more.append])
    assert cut.finished
    assert rows(cut.path) == rows(whole.path) == seen + [untimed(row) for row in more]


def test_an_error_in_the_loop_saves_where_the_run_is_a_context(tmp_path):
    with pytest.raises(ZeroDivisionError), started(tmp_path) as training:
        for row in training:
            if row["update"] == 3:
                raise ZeroDivisionError
    assert mmrs.load(training.path).policy.step == 3 * 128
    resume(training.path, quiet=True)  # it is not locked any more
    assert is_finished(training.path)


def test_a_run_that_was_never_asked_for_a_row_can_be_resumed(tmp_path):
    training = started(tmp_path)
    with pytest.raises(InputError, match="being trained by another process"):
        mmrs.resume(training.path)
    training.close()
    assert mmrs.resume(training.path).finished


def test_only_a_callback_that_returns_true_stops(tmp_path):
    numbers = iter(range(1, 100))
    assert trained(tmp_path, "all", callbacks=[lambda row: next(numbers)]).finished
    called = []
    run = trained(tmp_path, "some", callbacks=[lambda row: np.bool_(row["step"] >= 256), called.append])
    assert not run.finished
    assert [row["step"] for row in called] == [128, 256]
    assert run.policy.step == 256


def test_ctrl_c_saves_before_it_is_raised(tmp_path):
    def interrupt(row):
        if row["update"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, callbacks=[interrupt])
    assert signal.getsignal(signal.SIGINT) is before
    assert mmrs.load(tmp_path / "run").policy.step == 3 * 128


def test_between_rows_ctrl_c_is_the_callers(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    with started(tmp_path) as training:
        for _ in training:
            assert signal.getsignal(signal.SIGINT) is before


# --- a loss of one's own ----------------------------------------------------------------------------------------------


def test_a_loss_of_ones_own_is_recorded_and_needed_to_resume(tmp_path, capsys):
    whole = trained(tmp_path, "whole", loss=with_kl_penalty)
    assert whole.metrics["kl_penalty"].max() > 0
    assert raw_config(whole.path)["loss"] == "tests.support.losses.with_kl_penalty"
    plain = trained(tmp_path, "plain")
    assert "loss" not in raw_config(plain.path)
    assert rows(plain.path)[-1]["policy_loss"] != rows(whole.path)[-1]["policy_loss"]

    cut = trained(tmp_path, "cut", loss=with_kl_penalty, callbacks=[lambda row: row["update"] == 2])
    assert main(["train", "--resume", str(cut.path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "with a loss of its own, tests.support.losses.with_kl_penalty" in said
    assert "loss=with_kl_penalty)" in said
    for wrong in (None, ppo_loss):
        with pytest.raises(InputError, match=r"with_kl_penalty, and .* here"):
            mmrs.resume(cut, loss=wrong)
    with pytest.raises(InputError, match="with a loss of its own"):
        run_to_completion(cut.config)
    assert len(rows(cut.path)) == 2
    assert rows(mmrs.resume(cut, loss=with_kl_penalty).path) == rows(whole.path)


def test_a_run_without_a_loss_gets_none_later(tmp_path):
    cut = trained(tmp_path, callbacks=[lambda row: True])
    with pytest.raises(InputError, match=r"PPO's own loss and cannot go on with .*with_kl_penalty"):
        mmrs.resume(cut, loss=with_kl_penalty)


# --- a longer run -----------------------------------------------------------------------------------------------------


def test_without_schedules_an_extended_run_equals_a_long_one(tmp_path):
    constant = {"ppo.linear_decay": False}
    long = trained(tmp_path, "long", steps=2 * STEPS, **constant)
    short = trained(tmp_path, "short", **constant)
    assert main(["train", "--resume", str(short.path), "--steps", str(2 * STEPS), "--quiet"]) == 0
    assert rows(short.path) == rows(long.path)
    extended = mmrs.load(short.path)
    assert extended.finished
    assert extended.config == replace(long.config, name="short")
    (event,) = [event for event in events(short.path) if event["event"] == "extended"]
    assert (event["step"], event["steps_before"], event["steps"]) == (STEPS, STEPS, 2 * STEPS)


def test_schedules_of_an_extended_run_end_at_its_new_end(tmp_path):
    long, short = trained(tmp_path, "long", "rnd", 2 * STEPS), trained(tmp_path, "short", "rnd")
    assert raw_config(short.path)["bonus"]["total_updates"] == 6
    rates = []
    training = mmrs.resume(short, steps=2 * STEPS, callbacks=[lambda row: rates.append(learning_rate(short.path))])
    assert training.finished
    assert raw_config(short.path)["bonus"] == raw_config(long.path)["bonus"]
    assert raw_config(short.path)["bonus"]["total_updates"] == 12
    # Each rate is that of a checkpoint two updates apart: half of the first one after the extension, then lower.
    assert rates == sorted(rates, reverse=True)
    assert learning_rate(short.path) == pytest.approx(short.config.ppo.learning_rate / 12)
    assert rows(short.path)[6:] != rows(long.path)[6:]


def test_the_report_tells_extended_runs_and_losses_apart(tmp_path):
    trained(tmp_path, "long", steps=512)
    run = trained(tmp_path, "short", steps=128, seed=1)
    for steps in (256, 512):
        mmrs.resume(run, steps=steps)
    trained(tmp_path, "other", steps=512, seed=2)
    trained(tmp_path, "loss", steps=512, loss=with_kl_penalty)
    found = collect([tmp_path])
    assert {run.path.name: label for run, label in zip(found.runs, found.labels, strict=True)} == {
        "long": "ppo",
        "other": "ppo",
        "short": "ppo (extended=128 256)",
        "loss": "ppo (loss=tests.support.losses.with_kl_penalty)",
    }


def learning_rate(folder: Path) -> float:
    """The rate of the last update in the newest checkpoint; before the first extended one, infinity."""
    from mmrs.storage import checkpoint as store  # noqa: PLC0415

    step, tree = store.load(folder / "checkpoints")
    return float(tree["trainer"]["optimizer"]["param_groups"][0]["lr"]) if step > STEPS else math.inf


def test_an_extension_that_is_cut_short_leaves_a_run_that_can_be_resumed(tmp_path, monkeypatch):
    run = trained(tmp_path)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "extend", killed)
        with pytest.raises(KeyboardInterrupt):
            mmrs.resume(run, steps=2 * STEPS)
    assert mmrs.load(run.path).config.steps == STEPS
    assert mmrs.resume(run).finished
    assert len(rows(run.path)) == 6
    mmrs.resume(run, steps=2 * STEPS)
    assert len(rows(run.path)) == 12


def test_a_run_cannot_be_made_shorter(tmp_path, capsys):
    run = trained(tmp_path)
    assert main(["train", "--resume", str(run.path), "--steps", "128"]) == 2
    assert f"has {STEPS} steps and can only be made longer" in " ".join(capsys.readouterr().err.split())
    assert mmrs.load(run.path).finished


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--seed", "4"], "--seed"),
        (["--ppo.learning_rate=1e-3", "--steps", "9999"], "--ppo.learning-rate"),
        (["--env", "Acrobot-v1", "--wandb"], "--env, --wandb"),
        (["--compare", "ppo", "rnd"], "--compare"),
    ],
)
def test_options_that_resume_would_ignore_are_refused(cartpole, capsys, options, named):
    before = (cartpole.path / "attempts.jsonl").read_text()
    assert main(["train", "--resume", str(cartpole.path), *options]) == 2
    assert f"so {named} would be ignored" in " ".join(capsys.readouterr().err.split())
    assert main(["train", *options, f"--resume={cartpole.path}"]) == 2
    assert (cartpole.path / "attempts.jsonl").read_text() == before
    assert main(["train", "--resume", str(cartpole.path), "--quiet"]) == 0


# --- reading runs -----------------------------------------------------------------------------------------------------


def test_metrics_are_columns_with_nan_where_a_row_lacks_them(cartpole):
    metrics = cartpole.metrics
    assert metrics["step"].tolist() == list(range(128, STEPS + 1, 128))
    assert metrics["step"].dtype == np.int64
    assert math.isnan(metrics["bonus/rnd_loss"][0])  # that of the update before
    assert np.isfinite(metrics["bonus/rnd_loss"][1:]).all()
    for index, row in enumerate(rows(cartpole.path)):
        assert {name: metrics[name][index] for name in row} == row
    table = cartpole.dataframe()
    assert table.loc[256, "reward/rnd"] == metrics["reward/rnd"][1]
    assert len(table) == 6


def test_pandas_is_named_where_it_is_missing(cartpole, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'mmrs\[pandas\]'"):
        cartpole.dataframe()


def test_the_policy_acts_on_one_and_on_many_observations(cartpole):
    policy = mmrs.load(cartpole.path).policy
    batch = np.random.default_rng(0).normal(size=(7, 4))
    many = policy.act(batch, deterministic=True)
    assert many.shape == (7,)
    assert [int(policy.act(obs, deterministic=True)) for obs in batch] == many.tolist()
    assert policy.act(batch[0].tolist(), deterministic=True) == many[0]
    assert policy.action_space.contains(policy.act(batch[0]))
    sampled = policy.act(np.repeat(batch[:1], 200, 0))
    assert set(sampled.tolist()) == {0, 1}
    for wrong, message in ((batch[:, :3], r"shape \(7, 3\)"), (np.zeros(()), "shape"), (batch[:0], "shape")):
        with pytest.raises(InputError, match=message):
            policy.act(wrong)
    with pytest.raises(InputError, match="of type complex128, expected float32"):
        policy.act(batch.astype(complex))


def test_the_policy_normalizes_as_in_training(tmp_path):
    run = mmrs.train("Pendulum-v1", "none", root=tmp_path, steps=STEPS, **{**SHORT, "env.normalize": True})
    state = torch_state(run)
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    mean, variance = (np.asarray(state["normaliser"][name], np.float64) for name in ("mean", "variance"))
    by_hand = torch.as_tensor(((obs - mean) / np.sqrt(variance + 1e-8)).clip(-10, 10).astype(np.float32))
    with torch.no_grad():
        expected = run.policy.network.mode(run.policy.network(by_hand)[0]).numpy().clip(-2, 2)
    acted = run.policy.act(obs, deterministic=True)
    np.testing.assert_allclose(acted, expected, atol=1e-5)
    assert run.policy.act(obs[0], deterministic=True).shape == (1,)
    env = gym.make("Pendulum-v1")
    env.reset(seed=0)
    env.step(run.policy.act(obs[0]))
    env.close()


def torch_state(run: mmrs.Run) -> dict:
    from mmrs.storage import checkpoint as store  # noqa: PLC0415

    return store.load(run.path / "checkpoints")[1]["trainer"]


def test_the_policy_of_states_takes_a_number(tmp_path):
    run = mmrs.train("FrozenLake-v1", "jfi", root=tmp_path, steps=256, **SHORT)
    assert run.policy.act(3, deterministic=True) == run.policy.act([3, 5], deterministic=True)[0]
    with pytest.raises(InputError, match="of type float64, expected int64"):
        run.policy.act(3.5)


def test_evaluate_returns_what_the_command_prints(cartpole, capsys):
    result = mmrs.evaluate(cartpole, episodes=3, num_envs=2, deterministic=True)
    assert capsys.readouterr().out == ""
    assert main(["eval", str(cartpole.path), "--episodes", "3", "--num-envs", "2", "--deterministic"]) == 0
    assert capsys.readouterr().out.strip() == str(result)
    first, second = json.loads((cartpole.path / "evaluation.json").read_text())["evaluations"][-2:]
    assert first == second
    assert len(result.full_game.values) == 3
    with pytest.raises(InputError, match="unknown key 'episode'"):
        mmrs.evaluate(cartpole, episode=3)


def test_load_refuses_what_is_no_run(tmp_path):
    with pytest.raises(InputError, match="there is no run in"):
        mmrs.load(tmp_path)
    assert repr(mmrs.load(trained(tmp_path, steps=128))).startswith("<Run ")
    assert isinstance(mmrs.load(str(tmp_path / "run")).config, TrainConfig)


# --- the page and the notebook ----------------------------------------------------------------------------------------


def test_the_examples_of_the_page_run_in_order(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 7
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), scope)
    assert scope["longer"].metrics["step"][-1] == 24_576
    assert len(scope["actions"]) == 2
    assert scope["steps"][-1] == 20_480
    assert "95 % interval" in capsys.readouterr().out


@pytest.mark.filterwarnings("default")
def test_the_notebook_runs_and_shows_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    notebook = nbformat.read(ROOT / "examples" / "python_api.ipynb", 4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before committing"
    NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(tmp_path)}}).execute()
    first = next(cell for cell in notebook.cells if "mmrs.train(" in cell.source)
    shown = [output.data["text/plain"] for output in first.outputs if output.output_type == "display_data"]
    assert re.search(r"rnd +━+ +10.24k/10k +done", shown[0])  # one output, drawn anew until the end
    assert sum("bonus in" in text for text in shown) == 1
    assert "nan" not in str(notebook.cells[-1].outputs[0].data["text/plain"])
    assert not (tmp_path / "runs").exists()
