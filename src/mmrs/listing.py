"""`mmrs list`: environments, rewards, presets and suites, each with a short description."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mmrs.envs.registry import environment_ids
from mmrs.errors import InputError, did_you_mean
from mmrs.rewards import REWARDS
from mmrs.runs.config import TrainConfig
from mmrs.runs.presets import ALL_PRESETS
from mmrs.sweeps.suites import SUITES

Entries = dict[str, str]


@dataclass(frozen=True)
class ListConfig:
    """List environments, rewards, presets and suites."""

    what: Annotated[Literal["all", "environments", "rewards", "presets", "suites"], tyro.conf.Positional] = "all"
    """The list to print."""
    find: str = ""
    """Print only names that contain this text, in upper or lower case."""


def show_list(config: ListConfig, console: Console | None = None) -> None:
    """Print the lists."""
    console = console or Console()
    lists = {"environments": environments, "rewards": rewards, "presets": presets, "suites": suites}
    chosen = lists if config.what == "all" else {config.what: lists[config.what]}
    found = 0
    known: list[str] = []
    for title, entries in chosen.items():
        every = entries()
        known += every
        named = {name: text for name, text in every.items() if config.find.lower() in name.lower()}
        found += len(named)
        if named:
            _show(title, named, console)
    if not found:
        raise InputError(f"nothing is named like {config.find!r}. {_nearest(config.find, known)}")


def environments() -> Entries:
    """Ids of environments with their kind, those of other installed packages included."""
    return {name: _kind(name) for name in environment_ids()}


def rewards() -> Entries:
    """Names of rewards with the first sentences of their docstrings."""
    return {name: describe(factory) for name, factory in REWARDS.items()} | {"none": "Plain PPO."}


def presets() -> Entries:
    """Names of presets with the fields in which they differ from the defaults."""
    return {name: ", ".join(_changes(preset, TrainConfig())) or "the defaults" for name, preset in ALL_PRESETS.items()}


def suites() -> Entries:
    """Names of the suites of `mmrs sweep` with their number of runs."""
    return {s.name: f"{s.about} (runs: {len(s.games) * len(s.methods) * s.seeds})" for s in SUITES.values()}


def describe(factory: Any) -> str:
    """Description of a reward: the item of its form in the class docstring, else the first paragraph of that."""
    whole = factory.func if isinstance(factory, partial) else factory
    text = inspect.getdoc(whole) or "(not documented)"
    if isinstance(factory, partial):
        for value in factory.keywords.values():
            item = re.search(rf"^- ``{re.escape(str(value))}``: (.+(?:\n  .+)*)$", text, re.MULTILINE)
            if item:
                return _one_line(item[1])
    return _one_line(text.partition("\n\n")[0])


def _one_line(text: str) -> str:
    """Text without line breaks, since the table wraps it."""
    return " ".join(text.replace("``", "").split())


def _kind(name: str) -> str:
    if name.startswith("ALE/"):
        return "Atari"
    if "BulletEnv" in name:
        return "Bullet"
    return "of mmrs" if name.startswith("mmrs/") else "Gymnasium"


def _changes(config: Any, default: Any, path: str = "") -> list[str]:
    changes = []
    for field in fields(config):
        value, usual = getattr(config, field.name), getattr(default, field.name)
        if is_dataclass(value) and type(value) is type(usual):
            changes += _changes(value, usual, f"{path}{field.name}.")
        elif value != usual:
            changes.append(f"{path}{field.name}={value}")
    return changes


def _nearest(name: str, known: list[str]) -> str:
    # All of the many environments would bury the hint.
    return did_you_mean(name, known).partition("Known:")[0] or "Leave --find out to see all."


def _show(title: str, entries: Entries, console: Console) -> None:
    console.print(Text(f"\n{title} ({len(entries)})", style="bold"))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column(no_wrap=True, overflow="fold")
    table.add_column(style="dim")
    for name, text in entries.items():
        table.add_row(Text(name), Text(text))
    console.print(table)
