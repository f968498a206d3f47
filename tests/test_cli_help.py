"""What a user reads of the docstrings: sentences, never the tags that stand in the code."""

import inspect
import re

import pytest

from mmrs.cli import COMMANDS, main
from mmrs.cli_help import in_plain_words
from mmrs.ppo.ppo import PPOConfig
from mmrs.runs.config import EnvConfig

TAG = re.compile(r"#\s*(Deviation|Unstated)")


def shown(capsys, monkeypatch, *arguments):
    """What a command prints, as one line of words; narrow enough for a single column."""
    monkeypatch.setenv("COLUMNS", "90")
    try:
        code = main(list(arguments))
    except SystemExit as end:
        code = end.code
    assert code == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("arguments", [("--help",), *((name, "--help") for name in COMMANDS), ("list",)], ids=" ".join)
def test_no_tag_is_shown(capsys, monkeypatch, arguments):
    text = shown(capsys, monkeypatch, *arguments)
    assert len(text) > 200
    assert not TAG.search(text)


def test_the_help_of_train_says_each_tag_in_words(capsys, monkeypatch):
    text = shown(capsys, monkeypatch, "train", "--help")
    assert (
        "Of Adam. Unlike the paper: Sec. 6.2 prints 0.0025, ten times the cited code's; `paper-literal` has it." in text
    )
    assert "an action is repeated. Not stated in the paper: the games' -v4 versions of the time had none." in text
    tags = TAG.findall(inspect.getsource(PPOConfig) + inspect.getsource(EnvConfig))
    said = {"Deviation": text.count("Unlike the paper: "), "Unstated": text.count("Not stated in the paper: ")}
    assert said == {kind: tags.count(kind) for kind in ("Deviation", "Unstated")}
    assert min(said.values()) > 0


def test_help_is_not_broken_where_a_line_of_code_ends(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    assert "Bullet, whichever the environment is); without it," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("docstring", "text"),
    [
        ("Lloyd passes. # Unstated.", "Lloyd passes. Not stated in the paper."),
        ("One k-means, or\n    one each.\n    # Deviation: one.", "One k-means, or one each. Unlike the paper: one."),
        ("# Unstated: the slope.", "Not stated in the paper: the slope."),
        ("A number # of something.", "A number # of something."),
        ("", ""),
    ],
)
def test_tags_become_sentences(docstring, text):
    assert in_plain_words(docstring) == text
