"""Whole numbers on the command line, and missing packages, which are named before a folder is made."""

from __future__ import annotations

import sys

import pytest
import tyro

from mmrs.cli import main, whole_number
from mmrs.errors import MissingExtraError, require_packages


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e6", 10**6), ("1_000_000", 10**6), ("2.5e3", 2500), ("-3", -3), ("9007199254740993", 2**53 + 1)],
)
def test_whole_numbers_may_have_an_exponent(text, value):
    assert whole_number(text) == value
    assert isinstance(whole_number(text), int)


@pytest.mark.parametrize("text", ["1.5", "1e-3", "nan", "inf", "1e999999999", "1e40", "ten", "", "0x10"])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError, match=r"is not a (whole )?number"):
        whole_number(text)


def test_integer_options_take_an_exponent(tmp_path, capsys):
    """Also inside optional values, as in --env.threads."""
    train = ["train", "--env", "CartPole-v1", "--bonus", "none", "--root", str(tmp_path), "--name", "a", "--quiet"]
    assert main([*train, "--steps", "1e3", "--num-steps", "6.4e1", "--env.reseed-every", "1e4"]) == 0
    text = (tmp_path / "a" / "config.json").read_text()
    assert all(part in text for part in ('"steps": 1000,', '"num_steps": 64,', '"reseed_every": 10000,'))
    with pytest.raises(SystemExit):
        main([*train, "--steps", "1e-3"])
    assert "1e-3" in capsys.readouterr().err


def test_the_help_still_shows_numbers(capsys):
    with pytest.raises(SystemExit):
        main(["sweep", "--help"])
    assert "--retries INT" in capsys.readouterr().out


def test_every_missing_package_is_named_at_once(monkeypatch):
    require_packages(json="a", re="b")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"jinja2 is not installed\..* pip install 'mmrs\[report\]'"):
        require_packages(json="a", jinja2="report")
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(MissingExtraError, match=r"jinja2 and scipy are not installed.*'mmrs\[report,stats\]'"):
        require_packages(jinja2="report", scipy="stats")


@pytest.mark.parametrize(
    ("module", "command", "folder"),
    [
        ("matplotlib", "gridworld", "gridworld"),
        ("matplotlib", "bounds", "bounds"),
        ("imageio_ffmpeg", "demo", "demo"),
        ("jinja2", "demo", "demo"),
        ("jinja2", "report", "report"),
        ("ray", "sweep smoke --engine ray", "smoke"),
        ("submitit", "sweep smoke --engine slurm", "smoke"),
    ],
)
def test_a_missing_extra_leaves_no_folder(tmp_path, monkeypatch, capsys, module, command, folder):
    monkeypatch.setitem(sys.modules, module, None)
    runs = [str(tmp_path)] if command == "report" else []
    assert main([*command.split(), *runs, "--out", str(tmp_path / folder)]) == 2
    assert f"{module} is not installed. Install it with: pip install 'mmrs[" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_tyro_reads_numbers_with_the_rules_of_this_package_only_here():
    assert tyro.cli(int, args=["12"]) == 12
    with pytest.raises(SystemExit):
        tyro.cli(int, args=["1e3"])
