"""Options of a reward as flags of `mmrs train`."""

import json
import re
from typing import Annotated, Any

import pytest

from mmrs.bonus_flags import flag_of
from mmrs.cli import _parse, main
from mmrs.errors import InputError
from mmrs.fields import Range, field_types, range_of
from mmrs.rewards import REWARDS, RND, register
from mmrs.runs.build import bonus_settings, parse_options
from mmrs.runs.config import BonusConfig, EnvConfig, TrainConfig
from mmrs.runs.presets import default_bonus

OWN = sorted(REWARDS)


def read(*arguments: str) -> TrainConfig:
    return _parse(["train", *arguments])


def help_of(capsys, monkeypatch, *arguments: str) -> str:
    monkeypatch.setenv("COLUMNS", "90")  # a single column
    with pytest.raises(SystemExit):
        main(["train", *arguments, "--help"])
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("name", OWN)
def test_the_help_shows_every_option_with_its_range_and_default(name, capsys, monkeypatch):
    text = help_of(capsys, monkeypatch, "--bonus", name)
    assert "Deviation" not in text and "Unstated" not in text and "Sec. " not in text
    for option, hint in field_types(REWARDS[name].config).items():
        shown = re.search(rf"{flag_of(option)}[ ,].*?\(default: ([^)]*)\)", text)
        assert shown, option
        default = getattr(REWARDS[name].config(), option)
        assert shown[1] == str(default), option
        allowed = range_of(hint)
        if allowed == Range(1):
            assert ">= 1" in shown[0], option


def test_flags_become_options_of_the_bonus():
    config = read("--bonus", "rnd", "--bonus.latent-dim", "64", "--bonus.clip=2")
    assert config.bonus == BonusConfig(
        "rnd", options=("latent_dim=64", "clip=2.0"), weight=0.03, scale="reward", center=True
    )
    assert type(config.env) is EnvConfig and type(config.bonus) is BonusConfig
    assert bonus_settings(config)["latent_dim"] == 64
    assert read("--bonus", "rnd").bonus == default_bonus("rnd")
    assert read("--bonus", "none").bonus.options == ()


def test_a_flag_that_repeats_a_default_still_counts():
    """The preset has another value, so the default of the class is a change."""
    config = read("--bonus", "mmrs", "--bonus.preset", "paper", "--bonus.k", "128", "--bonus.scale-global")
    settings = bonus_settings(config)
    assert (settings["k"], settings["scale_global"], settings["novelty"]) == (128, True, "sum")
    assert read("--bonus", "mmrs", "--bonus.no-scale-global").bonus.options == ("scale_global=False",)
    assert read("--bonus", "mmrs", "--bonus.total_updates", "None").bonus.options == ("total_updates=None",)


def test_a_flag_wins_over_the_untyped_option():
    config = read("--bonus", "rnd", "--bonus.options", "latent_dim=5", "clip=3", "--bonus.latent-dim", "64")
    assert config.bonus.options == ("clip=3", "latent_dim=64")
    assert read("--env", "Alien", "--preset", "paper-literal", "--bonus.k", "7").bonus.options == (
        "preset=paper",
        "k=7",
    )


def test_the_help_of_a_preset_shows_its_values(capsys, monkeypatch):
    assert "--bonus.k INT >= 1 Number of clusters. The paper has 10. (default: 10)" in help_of(
        capsys, monkeypatch, "--bonus", "mmrs", "--bonus.preset", "paper"
    )


def test_an_option_named_as_a_field_of_the_bonus_has_a_prefix():
    config = read("--bonus", "coverage", "--bonus.weight", "0.5", "--bonus.option-weight", "0.25")
    assert (config.bonus.weight, config.bonus.options) == (0.5, ("weight=0.25",))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bonus.latent-dim", "0"), "rnd.latent_dim is 0, expected a whole number, at least 1."),
        (("--bonus.options", "seed=3"), "bonus.options has seed=3, but the bonus takes the run's seed. Use --seed."),
        (("--bonus.options", "latentdim=3"), "rnd has no option 'latentdim'. Did you mean 'latent_dim'"),
    ],
)
def test_wrong_values_are_refused_before_a_folder_is_made(arguments, message, tmp_path, capsys):
    root = tmp_path / "runs"
    assert main(["train", "--env", "CartPole-v1", "--bonus", "rnd", "--root", str(root), *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
    assert not root.exists()


def test_a_wrong_flag_gets_near_matches(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--bonus", "rnd", "--bonus.latentdim", "3"])
    assert "--bonus.latent-dim" in capsys.readouterr().err


def test_a_run_records_the_values(tmp_path):
    arguments = ["--env", "CartPole-v1", "--bonus", "rnd", "--bonus.latent-dim", "8", "--steps", "256", "--quiet"]
    assert main(["train", *arguments, "--num-steps", "16", "--root", str(tmp_path)]) == 0
    (path,) = tmp_path.glob("*/config.json")
    data = json.loads(path.read_text())
    assert data["config"]["bonus"]["options"] == ["latent_dim=8"]
    assert data["bonus"]["latent_dim"] == 8
    assert data["bonus"].keys() == {*field_types(REWARDS["rnd"].config)}


class Custom(RND):
    """A reward with options that the command line cannot read."""

    def __init__(
        self, obs, act, *, word: str = "1e3", sizes: tuple[int, ...] = (1, 2), table: Any = None,
        share: Annotated[float, Range(0, 1)] = 0.5, seed: int = 0,
    ):  # fmt: skip
        super().__init__(obs, act, seed=seed)


def test_options_of_a_custom_reward_are_flags_too(capsys, monkeypatch):
    register("custom", Custom)
    try:
        text = help_of(capsys, monkeypatch, "--bonus", "custom")
        assert "--bonus.share FLOAT >= 0, <= 1" in text and "--bonus.table" not in text
        given = ("--bonus.word", "12", "--bonus.sizes", "3", "4", "--bonus.options", "table={'a': 1}")
        options = read("--bonus", "custom", *given).bonus.options
        assert parse_options(options) == {"table": {"a": 1}, "word": "12", "sizes": (3, 4)}
    finally:
        del REWARDS["custom"]


def test_a_reward_that_needs_an_option_is_still_read():
    class Needs(RND):
        def __init__(self, obs, act, *, size: int, seed: int = 0):
            super().__init__(obs, act, seed=seed)

    register("needs", Needs)
    try:
        config = read("--bonus", "needs", "--bonus.options", "size=3")
        assert bonus_settings(config) == {"size": 3}
        with pytest.raises(InputError, match="needs the option 'size'"):
            bonus_settings(read("--bonus", "needs"))
    finally:
        del REWARDS["needs"]
