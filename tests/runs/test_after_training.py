"""Commands on a trained run: eval, video, export; and list."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from rich.console import Console

import mmrs
from mmrs.cli import main
from mmrs.envs.base import EnvStep, Episodes
from mmrs.errors import InputError, MissingExtraError, StorageError
from mmrs.listing import ListConfig, describe, show_list
from mmrs.listing import environments as environment_list
from mmrs.listing import rewards as reward_list
from mmrs.nets.actor_critic import ActorCritic
from mmrs.nets.normalization import ObsNormalizer
from mmrs.ppo.policy import Policy
from mmrs.rewards import REWARDS
from mmrs.runs.evaluate import EvalConfig, ReturnSummary, evaluate, evaluations, play_episodes
from mmrs.runs.export import ExportConfig, Exported, difference, export, observations, to_onnx
from mmrs.runs.folder import RunFolder
from mmrs.runs.loggers import require_wandb
from mmrs.runs.presets import default_config
from mmrs.runs.train import run_to_completion, train
from mmrs.runs.video import VideoConfig, video
from mmrs.spaces import action_spec, observation_spec


def trained(root: Path, env: str, bonus: str, **env_options) -> RunFolder:
    """A run of two short updates."""
    config = default_config(env, bonus)
    config = replace(config, env=replace(config.env, num_envs=2, **env_options), num_steps=16, steps=64)
    run, code = train(replace(config, root=root, name="r", quiet=True))
    assert code == 0
    return run


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("cartpole"), "CartPole-v1", "mmrs")


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


# --- eval -----------------------------------------------------------------------------------------------------------


def test_evaluation_is_repeatable_kept_and_whole(cartpole):
    config = EvalConfig(cartpole.path, episodes=7, num_envs=3)
    out = quiet()
    first, second = evaluate(config, out), evaluate(config, quiet())
    assert first == second
    other = evaluate(replace(config, deterministic=True), quiet())
    assert len(first.full_game.values) == len(first.lengths) == 7
    assert first.full_game.values == tuple(map(float, first.lengths))  # CartPole pays 1 a step
    assert (first.step, first.cut) == (64, 0)
    assert first.full_game.low <= first.full_game.mean <= first.full_game.high
    kept = json.loads(cartpole.evaluation.read_text())["evaluations"]
    assert [k["deterministic"] for k in kept] == [False, False, True]
    assert kept[2]["full_game"]["mean"] == other.full_game.mean
    text = out.file.getvalue()
    assert "  return: " in text
    assert "95 % interval" in text
    assert "one life" not in text


def test_sampled_actions_follow_the_seed(cartpole):
    seeds = [evaluate(EvalConfig(cartpole.path, episodes=4, seed=s), quiet()).full_game.values for s in (1, 2)]
    assert seeds[0] != seeds[1]


class Timed:
    """Games of 1, 2, 3, ... steps by turns, each of two lives, the reward 1 a step."""

    num_envs = 1

    def __init__(self, lengths: list[int]) -> None:
        self.lengths, self.turn, self.t, self.resets = lengths, 0, 0, []

    def reset(self, seed):
        self.resets.append(seed)
        self.t = 0
        return np.zeros((1, 1), np.float32)

    def step(self, actions):
        assert actions.shape == (1,)
        self.t += 1
        over = self.t == self.lengths[self.turn % len(self.lengths)]
        ended = Episodes([1.0] * over, [float(self.t)] * over, [self.t] * over, [], [0] * over)
        if over:
            self.turn, self.t = self.turn + 1, 0
        none = np.zeros(1, bool)
        return EnvStep(
            np.zeros((1, 1), np.float32), np.ones(1, np.float32), none | over, none, np.zeros((int(over), 1)), ended
        )


class Still:
    def act(self, obs, deterministic):
        return np.zeros(len(obs), np.int64)


def test_short_games_do_not_crowd_out_long_ones():
    envs = [Timed([1]), Timed([50])]
    stats = play_episodes(Still(), envs, EvalConfig(Path(), episodes=5))
    assert sorted(stats.game_returns) == [1, 1, 1, 50, 50]
    assert sorted(stats.game_lengths) == [1, 1, 1, 50, 50]
    assert [env.resets for env in envs] == [[1_000_003], [1_000_004]]


def test_endless_games_are_cut_and_counted():
    envs = [Timed([10**9]), Timed([3])]
    stats = play_episodes(Still(), envs, EvalConfig(Path(), episodes=4, step_limit=10))
    assert sorted(stats.game_returns) == [3, 3, 10, 10]
    assert stats.cut == 2
    assert len(envs[0].resets) == 2


def test_interval_of_known_values():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        summary = ReturnSummary.of(rng.normal(5.0, 2.0, 40).tolist())
        hits += summary.low <= 5.0 <= summary.high
    assert 175 <= hits <= 199  # 95 % of 200 is 190; the bootstrap of 40 falls a little short
    one = ReturnSummary.of([3.0])
    assert (one.mean, one.std, one.low, one.high) == (3.0, None, None, None)


def test_a_single_game_has_no_standard_deviation_and_no_interval(cartpole, tmp_path):
    out = quiet()
    config = EvalConfig(cartpole.path, episodes=1, out=tmp_path / "e.json")
    (value,) = evaluate(config, out).full_game.values
    assert out.file.getvalue().splitlines() == [
        "step 64, 1 game, sampled actions",
        f"  return: {value:.2f} (a single return: no standard deviation, no interval)",
    ]
    evaluate(replace(config, episodes=2), out)  # reads what is there, and adds to it
    assert "2 games" in out.file.getvalue() and "95 % interval" in out.file.getvalue()
    one, two = (result["full_game"] for result in evaluations(tmp_path / "e.json"))
    assert one == {"mean": value, "std": None, "low": None, "high": None, "values": [value]}
    assert two["low"] <= two["mean"] <= two["high"] and two["std"] >= 0


def test_evaluation_refuses_what_cannot_be(cartpole, tmp_path):
    for field in ("episodes", "num_envs", "step_limit"):
        with pytest.raises(InputError, match=field):
            evaluate(EvalConfig(cartpole.path, **{field: 0}))
    with pytest.raises(InputError, match="no run"):
        evaluate(EvalConfig(tmp_path))
    (tmp_path / "e.json").write_text('{"evaluations": 3}')
    with pytest.raises(StorageError, match="damaged"):
        list(evaluations(tmp_path / "e.json"))


# --- video ----------------------------------------------------------------------------------------------------------


def test_a_video_can_be_read_back_and_shows_the_terms(cartpole):
    imageio = pytest.importorskip("imageio.v2")
    path = video(VideoConfig(cartpole.path, max_steps=25, episodes=9), quiet())
    assert path.parent == cartpole.videos
    frames = [np.array(frame) for frame in imageio.get_reader(path)]
    assert len(frames) == 25
    height, width, _ = frames[0].shape
    assert (height % 16, width) == (0, 480)
    below = frames[-1][330:, 400:].astype(int)  # right of all text
    colors = {"blue": below[..., 2] - below[..., 0], "orange": below[..., 0] - below[..., 2]}
    for name, excess in colors.items():  # the curves of two terms; extrinsic is white
        assert (excess > 60).sum() > 10, name
    again = video(VideoConfig(cartpole.path, max_steps=3), quiet())
    assert again.name == f"{path.stem}-2.mp4"
    assert not list(cartpole.videos.glob(".part*"))


def test_a_video_ends_with_the_requested_games(cartpole, tmp_path):
    imageio = pytest.importorskip("imageio.v2")
    path = video(VideoConfig(cartpole.path, episodes=1, out=tmp_path / "v.mp4"), quiet())
    frames = sum(1 for _ in imageio.get_reader(path))
    assert 5 < frames < 200  # one untrained game of CartPole


def test_a_video_that_cannot_be_drawn_names_what_is_missing(cartpole, monkeypatch, tmp_path, capsys):
    pytest.importorskip("imageio.v2")
    monkeypatch.setitem(sys.modules, "pygame", None)
    assert main(["video", str(cartpole.path), "--out", str(tmp_path / "v.mp4")]) == 2
    assert "pygame is not installed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# --- export ---------------------------------------------------------------------------------------------------------

SPACES = {
    "vector, numbers, normalized": (spaces.Box(-5, 5, (6,), np.float64), spaces.Box(-0.1, 0.1, (2,), np.float32)),
    "image": (spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(6, start=2)),
    "state": (spaces.Discrete(9, start=1), spaces.MultiDiscrete([3, 2])),
}


def fresh_policy(kind: str) -> Policy:
    observation, action = SPACES[kind]
    torch.manual_seed(0)
    network = ActorCritic(observation_spec(observation), action_spec(action))
    for parameter in network.parameters():  # the policy starts near zero, which would hide mistakes
        parameter.data += 0.05 * torch.randn_like(parameter)
    normaliser = None
    if "normalized" in kind:
        statistics = ObsNormalizer(observation.shape)
        statistics.update(np.random.default_rng(0).normal(3.0, 0.5, (100, 6)))
        normaliser = statistics.state()
    return Policy(observation, action, {"network": network.state_dict(), "normaliser": normaliser})


@pytest.mark.parametrize("kind", SPACES)
def test_onnx_agrees_with_torch_for_any_batch(kind):
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = fresh_policy(kind)
    batches = [observations(SPACES[kind][0], size) for size in (1, 2, 9)]
    model = to_onnx(Exported(policy).eval(), torch.as_tensor(batches[1]))
    assert difference(model, policy, batches) <= 1e-5
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for obs in batches:
        (action,) = session.run(["action"], {"obs": obs})
        np.testing.assert_allclose(action, policy.act(obs, deterministic=True), rtol=0, atol=1e-5)
    with torch.no_grad():  # a file that is wrong must be noticed
        last = policy.network.policy if kind == "image" else policy.network.policy[-1]
        last.bias[0] += 1e-3
    assert difference(model, policy, batches) > 1e-5


def test_export_writes_one_file_into_the_run(cartpole):
    onnxruntime = pytest.importorskip("onnxruntime")
    out = quiet()
    path = export(ExportConfig(cartpole.path), out)
    assert path == cartpole.path / "policy.onnx"
    assert "any batch size" in out.file.getvalue()
    told = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).get_modelmeta().custom_metadata_map
    assert (told["environment"], told["step"], told["mmrs_version"]) == ("CartPole-v1", "64", mmrs.__version__)
    assert told["obs"].startswith("vector [4]")
    assert told["parameters"] == "logits of one categorical distribution per action, with [2] choices"
    assert json.loads(told["environment_options"])["sticky"] == 0.0
    with pytest.raises(InputError, match="nothing to export"):
        export(ExportConfig(cartpole.path, onnx=False))


# --- missing extras -------------------------------------------------------------------------------------------------


def test_missing_extras_are_named(cartpole, monkeypatch, tmp_path):
    from mmrs.runs.loggers import TensorBoardLogger, WandbLogger  # noqa: PLC0415

    for module in ("imageio.v2", "onnxscript", "torch.utils.tensorboard", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"mmrs\[video\]"):
        video(VideoConfig(cartpole.path, max_steps=1), quiet())
    with pytest.raises(MissingExtraError, match=r"mmrs\[onnx\]"):
        export(ExportConfig(cartpole.path), quiet())
    with pytest.raises(MissingExtraError, match=r"mmrs\[board\]"):
        TensorBoardLogger(cartpole)
    with pytest.raises(MissingExtraError, match=r"mmrs\[wandb\]"):
        WandbLogger(cartpole, {})


def test_a_run_for_wandb_leaves_no_folder_where_wandb_is_missing(tmp_path, monkeypatch, capsys):
    options = ["--env", "CartPole-v1", "--bonus", "none", "--wandb", "--root", str(tmp_path / "runs"), "--quiet"]
    monkeypatch.setitem(sys.modules, "wandb", None)
    for more in ([], ["--compare", "ppo", "rnd"]):
        assert main(["train", *options, *more]) == 2
        assert "mmrs[wandb]" in capsys.readouterr().err
    config = replace(default_config("CartPole-v1", "none"), wandb=True, root=tmp_path / "runs", name="r")
    with pytest.raises(MissingExtraError, match=r"mmrs\[wandb\]"):
        run_to_completion(config)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_called_wandb_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "wandb").mkdir()
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(MissingExtraError, match=r"mmrs\[wandb\]"):
        require_wandb()


# --- list -----------------------------------------------------------------------------------------------------------


def test_every_reward_has_a_line_of_its_own():
    lines = reward_list()
    assert set(lines) == {*REWARDS, "none"}
    assert len(set(lines.values())) == len(lines)
    assert all(text and "\n" not in text and "``" not in text for text in lines.values())
    assert describe(lambda: None) == "(not documented)"
    assert lines["landmarks"].startswith("K (J(t+1)")
    assert lines["count_penalty"] == "1/√n − 1, never positive"


def test_the_description_of_a_form_may_take_several_lines():
    class Forms:
        """Two forms.

        - ``a``: the first, of which
          there is more to say
        - ``b``: the second
        """

        def __init__(self, form):
            self.form = form

    assert [describe(partial(Forms, form=form)) for form in "abc"] == [
        "the first, of which there is more to say", "the second", "Two forms.",
    ]  # fmt: skip


def test_a_narrow_list_is_wrapped_and_not_cut():
    out = Console(file=io.StringIO(), width=60)
    show_list(ListConfig("rewards", find="landmarks"), out)
    assert reward_list()["landmarks"] in " ".join(out.file.getvalue().split())


def test_the_list_shows_what_there_is_and_finds():
    out = quiet()
    show_list(ListConfig(), out)
    text = out.file.getvalue()
    for name in ("CartPole-v1", "ALE/Alien-v5", "HopperBulletEnv-v0", "mmrs", "paper-literal", "env.normalize=True"):
        assert name in text
    entries = environment_list()
    assert (entries["CartPole-v1"], entries["mmrs/KeyRooms-v0"]) == ("Gymnasium", "of mmrs")
    assert entries["Blackjack-v1"] == "Gymnasium, not supported: observation space Tuple"
    assert entries["Ant-v2"] == "Gymnasium, cannot be made"
    if find_spec("jax") is None:
        assert entries["phys2d/CartPole-v1"] == "Gymnasium, not installed: jax"
    out = quiet()
    show_list(ListConfig("environments", find="ALIEN"), out)
    assert [line.split()[0] for line in out.file.getvalue().splitlines() if "ALE/" in line] == ["ALE/Alien-v5"]
    with pytest.raises(InputError, match="Did you mean 'CartPole-v1'"):
        show_list(ListConfig("environments", find="CartPole-v11"), quiet())


def test_box_actions_and_pictures_of_mazes(tmp_path):
    ids = [name for name in gym.registry if name.startswith("mmrs/")]
    assert ids
    run = trained(tmp_path, "Pendulum-v1", "rnd", normalize=True)
    assert evaluate(EvalConfig(run.path, episodes=2), quiet()).full_game.mean < 0
    maze = trained(tmp_path / "maze", ids[0], "jfi")
    assert video(VideoConfig(maze.path, max_steps=5), quiet()).stat().st_size > 0
