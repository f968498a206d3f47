"""The preset of the printed values: of Sec. 6.2 for Atari, of Sec. 6.3 for Bullet, none for anything else."""

from dataclasses import replace

import pytest
from tests.support.envs import register_pictures

from mmrs.cli import main
from mmrs.errors import InputError
from mmrs.listing import presets
from mmrs.rewards import PRESETS
from mmrs.runs.build import build_trainer
from mmrs.runs.config import TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.presets import default_config

FAMILIES = [("ALE/Breakout-v5", "paper", True), ("AntBulletEnv-v0", "paper-bullet", False)]


@pytest.mark.parametrize(("env", "form", "clipped"), FAMILIES, ids=["atari", "bullet"])
def test_the_literal_preset_has_the_values_printed_for_the_family(env, form, clipped):
    config = default_config(env, preset="paper-literal")
    assert (config.env.id, config.env.num_envs, config.num_steps, config.steps) == (env, 8, 128, 10_000_000)
    trainer = build_trainer(replace(config, device="cpu"))
    trainer.collector.close()
    assert trainer.bonus.config == replace(PRESETS[form], total_updates=trainer.total_updates)
    assert (trainer.ppo.config.learning_rate, trainer.ppo.config.grad_value_clip) == (0.0025, 5.0)
    assert trainer.reward_clip == clipped
    assert trainer.reward_memory is None, "the reward is normalised"
    assert trainer.collector.normalizer is None, "the states are normalised"


@pytest.mark.parametrize("env", [env for env, *_ in FAMILIES], ids=["atari", "bullet"])
def test_the_command_line_trains_with_it(tmp_path, env):
    size = ["--steps", "128", "--num-steps", "16", "--env.num-envs", "4"]
    where = ["--root", str(tmp_path), "--name", "run", "--quiet", "--device", "cpu"]
    assert main(["train", "--preset", "paper-literal", "--env.id", env, *size, *where]) == 0
    config = RunFolder.open(tmp_path / "run").read_config(TrainConfig)
    literal = default_config(env, preset="paper-literal")
    assert (config.bonus, config.ppo) == (literal.bonus, literal.ppo)
    assert config.env == replace(literal.env, num_envs=4)
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl").rows
    assert [row["step"] for row in rows] == [64, 128]
    assert all(row["reward/local"] > 0 for row in rows)


def test_images_and_vectors_have_their_own_presets():
    pictures = default_config(register_pictures())
    assert pictures.ppo == default_config("ALE/Alien-v5").ppo
    assert not pictures.env.reward_clip
    assert default_config("CartPole-v1").ppo != pictures.ppo


def test_another_bonus_keeps_the_printed_learner():
    config = default_config("AntBulletEnv-v0", "rnd", "paper-literal")
    assert config.bonus == default_config("AntBulletEnv-v0", "rnd").bonus
    assert config.ppo == default_config("AntBulletEnv-v0", preset="paper-literal").ppo


def test_without_an_environment_it_is_that_of_atari():
    assert default_config(preset="paper-literal") == default_config("ALE/Alien-v5", preset="paper-literal")


@pytest.mark.parametrize("env", ["CartPole-v1", "mmrs/KeyRooms-v0", "mmrs/Maze2D-v0"])
def test_environments_without_printed_values_are_refused(env, tmp_path, capsys):
    assert main(["train", "--preset", "paper-literal", "--env", env, "--root", str(tmp_path)]) == 2
    errors = capsys.readouterr().err
    assert f"{env} is neither" in errors
    assert "--bonus.options preset=paper" in errors
    assert "--ppo.learning-rate 0.0025 --ppo.grad-value-clip 5" in errors
    assert list(tmp_path.iterdir()) == []


def test_a_misspelt_preset_is_met_with_the_names_there_are():
    with pytest.raises(InputError, match=r"Did you mean 'paper-literal'.* Known: .*bullet, images, paper-literal"):
        default_config("AntBulletEnv-v0", preset="paper-litteral")


def test_the_list_shows_both_forms_and_what_each_sets():
    bonus, learner = "bonus.options", "ppo.learning_rate=0.0025, ppo.grad_value_clip=5.0"
    texts = {name: text for name, text in presets().items() if name.startswith("paper-literal")}
    assert texts == {
        "paper-literal (Atari)": f"env.id=ALE/Alien-v5, env.reward_clip=True, {bonus}=('preset=paper',), {learner}",
        "paper-literal (Bullet)": f"env.id=HopperBulletEnv-v0, {bonus}=('preset=paper-bullet',), {learner}",
    }
