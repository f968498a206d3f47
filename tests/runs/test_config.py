"""Every number of a training run has a range: what lies outside is refused by name before anything is made."""

import math
import typing
from dataclasses import is_dataclass, replace
from operator import attrgetter

import pytest

from mmrs.cli import main
from mmrs.envs.atari import ATARI_GAMES
from mmrs.envs.bullet import BULLET_GAMES
from mmrs.envs.rooms.family import ROOM_IDS
from mmrs.errors import InputError
from mmrs.fields import field_types, range_of
from mmrs.rewards import REWARDS
from mmrs.runs.build import build_trainer
from mmrs.runs.config import TrainConfig, check
from mmrs.runs.presets import ALL_PRESETS, default_bonus, default_config

BAD = {
    "env.num_envs": [0, -1, 1.5],
    "env.sticky": [-0.1, 1.0],
    "env.threads": [0, -3],
    "env.groups": [0, -1],
    "env.step_timeout": [0.0, -3.0, 1e9],
    "env.reseed_every": [0, -1],
    "bonus.weight": [],
    "bonus.final_weight": [],
    "ppo.learning_rate": [-1.0],
    "ppo.clip": [0.0, -1.0],
    "ppo.epochs": [0, -1],
    "ppo.minibatches": [0, -1],
    "ppo.gamma": [-0.1, 2.0],
    "ppo.gae_lambda": [-0.1, 5.0],
    "ppo.entropy_weight": [],
    "ppo.value_weight": [-0.5],
    "ppo.max_grad_norm": [0.0, -1.0],
    "ppo.grad_value_clip": [0.0, -5.0],
    "ppo.adam_eps": [0.0, -1e-5],
    "mixing.extrinsic_weight": [],
    "mixing.intrinsic_gamma": [-0.1, 1.1],
    "steps": [0, -1],
    "num_steps": [0, -1],
    "seed": [-1, 2**63],
    "threads": [0, -1],
    "checkpoint_every": [0, -1],
}
"""Beside what is not finite, which no field takes."""
EDGES = {
    "env.sticky": [0.0, 0.999],
    "env.step_timeout": [1e-3, 86_400],
    "bonus.weight": [0.0, -1.0],
    "ppo.learning_rate": [0.0, 1],
    "ppo.gamma": [0.0, 1.0],
    "ppo.gae_lambda": [0, 1],
    "ppo.entropy_weight": [-0.01],
    "mixing.intrinsic_gamma": [0.0, 1.0],
    "seed": [0, 2**63 - 1],
    "steps": [1],
}


def changed(name: str, value: object) -> TrainConfig:
    """The defaults with one field, named by its path, set to something else."""
    part, dot, field = name.rpartition(".")
    config = TrainConfig()
    return replace(config, **({part: replace(getattr(config, part), **{field: value})} if dot else {name: value}))


def numbers_of(kind: type, place: str = "") -> set[str]:
    """Places of all fields that hold a number, whether or not they may be left unset."""
    found = set()
    for name, hint in typing.get_type_hints(kind).items():
        if is_dataclass(hint):
            found |= numbers_of(hint, f"{place}{name}.")
        elif {int, float} & {hint, *typing.get_args(hint)}:
            found.add(place + name)
    return found


def ranges_of(kind: type, place: str = "") -> set[str]:
    """Places of all fields with a range."""
    found = set()
    for name, hint in field_types(kind).items():
        if is_dataclass(hint):
            found |= ranges_of(hint, f"{place}{name}.")
        elif range_of(hint) is not None:
            found.add(place + name)
    return found


def test_every_number_of_the_configuration_has_a_range():
    assert numbers_of(TrainConfig) == ranges_of(TrainConfig) == BAD.keys()


@pytest.mark.parametrize("name", BAD)
def test_what_lies_outside_is_refused_by_name(name):
    for value in [*BAD[name], math.nan, math.inf, -math.inf, True, "1"]:
        with pytest.raises(InputError, match=rf"^{name} is {value!r}, expected a (whole|finite) number.*\.$"):
            check(changed(name, value))


def test_edges_are_taken():
    for name, values in EDGES.items():
        for value in values:
            config = changed(name, value)
            check(replace(config, ppo=replace(config.ppo, minibatches=1)))
            assert attrgetter(name)(config) == value


def test_the_largest_seed_makes_a_trainer():
    build_trainer(replace(changed("seed", 2**63 - 1), device="cpu")).collector.close()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("steps", 0, "steps is 0, expected a whole number, at least 1."),
        ("ppo.clip", -1.0, "ppo.clip is -1.0, expected a finite number, above 0."),
        ("ppo.gamma", 2.0, "ppo.gamma is 2.0, expected a finite number, at least 0 and at most 1."),
        ("env.sticky", 1.0, "env.sticky is 1.0, expected a finite number, at least 0 and below 1."),
        ("env.step_timeout", -3.0, "env.step_timeout is -3.0, expected a finite number, above 0 and at most 86,400."),
        ("bonus.weight", math.nan, "bonus.weight is nan, expected a finite number."),
    ],
)
def test_messages_name_the_range(name, value, message):
    with pytest.raises(InputError) as error:
        check(changed(name, value))
    assert str(error.value) == message


@pytest.mark.parametrize(
    "options",
    ["--ppo.clip -1", "--ppo.learning-rate nan", "--ppo.max-grad-norm 0", "--env.threads -3", "--env.step-timeout -3"],
)
def test_the_command_line_refuses_before_it_makes_a_folder(options, tmp_path, capsys):
    assert main(["train", "--env", "CartPole-v1", "--root", str(tmp_path / "runs"), *options.split()]) == 2
    field = options.split()[0].removeprefix("--").replace("-", "_")
    assert capsys.readouterr().err.startswith(f"error: {field} is ")
    assert list(tmp_path.iterdir()) == []


def test_the_defaults_of_every_environment_reward_and_preset_pass():
    for env in ("CartPole-v1", "FrozenLake-v1", *ATARI_GAMES, *BULLET_GAMES, *ROOM_IDS):
        check(default_config(env))
    for config in ALL_PRESETS.values():
        for bonus in ("none", *REWARDS):
            check(replace(config, bonus=default_bonus(bonus)))
    for env in ("ALE/Alien-v5", "AntBulletEnv-v0"):
        check(default_config(env, preset="paper-literal"))


def test_a_rollout_too_short_for_its_minibatches_is_refused():
    config = TrainConfig()
    with pytest.raises(InputError, match=r"fewer transitions than ppo\.minibatches"):
        check(replace(config, num_steps=1, ppo=replace(config.ppo, minibatches=9)))
