"""The help of every command: plain sentences in one line per option, and no tags of the source."""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
import typing
from dataclasses import is_dataclass

import pytest

from mmrs import __version__
from mmrs.cli import COMMANDS, main

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


def test_the_help_of_train_names_the_deviations(capsys, monkeypatch):
    text = shown(capsys, monkeypatch, "train", "--help")
    assert "Learning rate of Adam. The paper prints 0.0025" in text
    assert "Maximum norm of the gradient. The paper clips each entry instead" in text
    assert "Sec. " not in text  # means nothing to a reader without the paper
    assert "an action is repeated" in text or "the last action is repeated" in text


def configurations(kind: type) -> set[type]:
    """A configuration and those inside it, base classes included."""
    inside = {
        part for hint in typing.get_type_hints(kind).values() if is_dataclass(hint) for part in configurations(hint)
    }
    return {*inside, *(base for base in kind.__mro__ if is_dataclass(base))}


def helps(kind: type) -> dict[str, str | None]:
    """The docstring of each field of a class; None where there is none."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    texts = {}
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign):
            value = getattr(after, "value", None)
            texts[field.target.id] = value.value if isinstance(value, ast.Constant) else None
    return texts


EVERY = sorted({part for kind, _ in COMMANDS.values() for part in configurations(kind)}, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_option_has_help_in_one_line(kind):
    """The help breaks where a line of the docstring ends."""
    types = typing.get_type_hints(kind)
    for name, text in helps(kind).items():
        if is_dataclass(types[name]):
            continue  # its own docstring is the help
        assert text, name
        assert "\n" not in text, name
        assert not text.startswith("Of "), name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_says_what_it_does(name):
    text = inspect.getdoc(COMMANDS[name][0])
    assert text and not text.startswith("What ")


def test_the_module_runs_and_tells_its_version():
    done = subprocess.run([sys.executable, "-m", "mmrs", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"mmrs {__version__}\n"
