"""Configurations of rewards: the package's own, and those derived from a user's class or function."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal, get_args, get_type_hints

import pytest
import torch
from tests.support.rollouts import CAUSAL, MOVES, OBSERVATIONS, SMALL, make_rollout

import mmrs
from mmrs.errors import InputError
from mmrs.fields import Range, field_types, range_of
from mmrs.rewards import PRESETS, REWARDS, RND, JFIConfig, MMRSConfig, RNDConfig, register
from mmrs.rewards.registry import configure, settings
from mmrs.runs.build import bonus_settings
from mmrs.runs.config import BonusConfig, TrainConfig
from mmrs.runs.presets import default_bonus

VECTOR, DISCRETE = OBSERVATIONS["vector"], OBSERVATIONS["discrete"]
OWN = sorted(REWARDS)


@pytest.fixture
def registered():
    """Registers rewards for one test."""
    before = dict(REWARDS)
    yield register
    for name in REWARDS.keys() - before.keys():
        del REWARDS[name]


@pytest.mark.parametrize("name", OWN)
def test_keywords_and_the_object_make_the_same_reward(name):
    entry = REWARDS[name]
    options = SMALL.get(name, {})
    rollout = make_rollout(DISCRETE)
    by_keywords = mmrs.make(name, DISCRETE, MOVES, seed=3, **options)
    by_object = mmrs.make(name, DISCRETE, MOVES, seed=3, config=entry.config(**options))
    assert by_keywords.config == by_object.config == entry.config(**options)
    assert torch.equal(by_keywords.compute(rollout)[0], by_object.compute(rollout)[0])
    assert by_keywords.causal == entry.causal == (name in CAUSAL)


@pytest.mark.parametrize("name", OWN)
def test_every_number_of_a_reward_has_a_range_and_a_default_within(name):
    kind = REWARDS[name].config
    ranges = {option: range_of(hint) for option, hint in field_types(kind).items()}
    for option, hint in get_type_hints(kind).items():
        if {int, float} & {hint, *get_args(hint)}:
            assert ranges[option] is not None, option
    configure(name, {})


def test_classes_take_both_and_the_object_can_be_changed_by_keywords():
    bonus = RND(VECTOR, MOVES, config=RNDConfig(latent_dim=7, clip=2.0), clip=3.0)
    assert bonus.config == RNDConfig(latent_dim=7, clip=3.0)
    assert mmrs.make("mmrs", VECTOR, MOVES, config=PRESETS["paper"], k=4).config == replace(PRESETS["paper"], k=4)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rnd", {"latentdim": 3}, "rnd has no option 'latentdim'. Did you mean 'latent_dim'?"),
        ("rnd", {"config": JFIConfig()}, "rnd: config is of type JFIConfig, expected RNDConfig."),
        ("rnd", {"config": RNDConfig(epochs=0)}, "rnd.epochs is 0, expected a whole number, at least 1."),
        ("rnd", {"learning_rate": 0.0}, "rnd.learning_rate is 0.0, expected a finite number, above 0."),
        ("re3", {"trajectory": "run"}, "re3.trajectory is 'run', expected one of 'rollout', 'episode'."),
        ("mmrs", {"latent_dim": 0}, "mmrs.latent_dim is 0, expected a whole number, at least 1, or None."),
        ("mmrs", {"config": MMRSConfig(), "preset": "paper"}, "mmrs takes a preset or a config, not both."),
        ("landmarks", {"lambda_l": 0.1}, "landmarks(lambda_l=0.1, encoder='random'): novelty is"),
        ("landmarks", {"scale": "std"}, "landmarks has no option 'scale'. Did you mean 'input_scale'"),
        ("count_bonus", {"form": "decay"}, "count_bonus has no option 'form'."),
    ],
)
def test_wrong_options_are_refused_by_name(name, options, message):
    with pytest.raises(InputError) as error:
        mmrs.make(name, DISCRETE, MOVES, **options)
    assert str(error.value).startswith(message)


def test_settings_hold_what_the_name_and_the_preset_fix():
    assert settings("exp_decay", {"gamma_g": 0.5}) == {
        "form": "decay", "weight": None, "gamma_g": 0.5, "scope": "episode",
    }  # fmt: skip
    assert settings("mmrs", {"preset": "paper", "epochs": 2})["k"] == 10


# --- rewards of one's own -------------------------------------------------------------------------------------------


class Mine(RND):
    """A reward with options of its own."""

    def __init__(
        self,
        obs,
        act,
        *,
        gain: Annotated[float, Range(0, 2)] = 1.0,
        kind: Literal["a", "b"] = "a",
        size: int = None,  # noqa: RUF013 (common, and not an error)
        shape=(2, 3),
        seed: int = 0,
    ):
        super().__init__(obs, act, seed=seed, latent_dim=4)
        self.gain, self.kind, self.size, self.shape = gain, kind, size, shape


def test_options_of_a_class_come_from_its_signature(registered):
    registered("mine", Mine, weight=0.5, center=False)
    entry = REWARDS["mine"]
    assert [option.name for option in fields(entry.config)] == ["gain", "kind", "size", "shape"]
    assert (entry.causal, entry.decays) == (True, False)
    assert default_bonus("mine") == BonusConfig("mine", weight=0.5, scale="reward", center=False)
    bonus = mmrs.make("mine", VECTOR, MOVES, gain=2.0, seed=1)
    assert (bonus.gain, bonus.kind, bonus.size) == (2.0, "a", None)
    assert mmrs.make("mine", VECTOR, MOVES, config=entry.config(kind="b")).kind == "b"
    for options, message in [
        ({"gain": 3.0}, "mine.gain is 3.0, expected a finite number, at least 0 and at most 2."),
        ({"kind": "c"}, "mine.kind is 'c', expected one of 'a', 'b'."),
        ({"size": "x"}, "mine.size is 'x', expected a whole number, or None."),
        ({"gian": 1.0}, "mine has no option 'gian'. Did you mean 'gain'"),
    ]:
        with pytest.raises(InputError) as error:
            mmrs.make("mine", VECTOR, MOVES, **options)
        assert str(error.value).startswith(message)


@dataclass(frozen=True)
class MyOptions:
    gain: Annotated[float, Range(0, 2)] = 1.0


def with_config(obs, act, *, config: MyOptions | None = None, seed=0, **options):
    made = RND(obs, act, seed=seed, latent_dim=4)
    made.options = replace(config or MyOptions(), **options)
    return made


def test_a_function_may_take_its_configuration(registered):
    registered("configured", with_config)
    assert REWARDS["configured"].config is MyOptions
    assert REWARDS["configured"].causal is None
    assert mmrs.make("configured", VECTOR, MOVES, gain=0.5).options == MyOptions(0.5)
    with pytest.raises(InputError, match=r"configured\.gain is 5"):
        mmrs.make("configured", VECTOR, MOVES, config=MyOptions(5))


def test_a_function_of_any_keyword_takes_any(registered):
    def anything(obs, act, **options):
        return RND(obs, act, **options)

    registered("anything", anything)
    assert mmrs.make("anything", VECTOR, MOVES, latent_dim=3).config.latent_dim == 3
    assert settings("anything", {"latent_dim": 3}) == {"latent_dim": 3}
    with pytest.raises(InputError, match=r"register has no option 'wieght'\. Did you mean 'weight'"):
        register("other", Mine, wieght=1.0)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("seed=3", "bonus.options has seed=3, but the bonus takes the run's seed. Use --seed."),
        ("config=3", "rnd has no option 'config'."),
        ("name=3", "rnd has no option 'name'."),
        ("latent_dim=x", "rnd.latent_dim is 'x', expected a whole number, at least 1."),
    ],
)
def test_options_of_a_run_are_refused_before_it_begins(option, message):
    with pytest.raises(InputError) as error:
        bonus_settings(replace(TrainConfig(), bonus=BonusConfig("rnd", options=(option,))))
    assert str(error.value).startswith(message)


def test_only_rewards_that_say_so_decay(registered):
    registered("mine", Mine)
    updates = {
        name: bonus_settings(replace(TrainConfig(), bonus=BonusConfig(name))).get("total_updates") for name in REWARDS
    }
    assert {name for name, number in updates.items() if number} == {"landmarks", "mmrs", "ride", "rnd"}
