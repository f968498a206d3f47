"""`mmrs list`: environments, rewards, presets and suites, each with a short description."""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import gymnasium as gym
import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mmrs import plugins
from mmrs.envs.gym_envs import make_single
from mmrs.envs.registry import environment_kinds
from mmrs.errors import InputError, MissingExtraError, UnsupportedSpaceError, did_you_mean
from mmrs.rewards import REWARDS
from mmrs.runs.config import TrainConfig
from mmrs.runs.presets import ALL_PRESETS
from mmrs.sweeps.suites import SUITES

Entries = dict[str, str]
_MISSING = (gym.error.DependencyNotInstalled, ModuleNotFoundError)


@dataclass(frozen=True)
class ListConfig:
    """List environments, rewards, presets and suites."""

    what: Annotated[Literal["all", "environments", "rewards", "presets", "suites"], tyro.conf.Positional] = "all"
    """The list to print."""
    imports: Annotated[tuple[str, ...], tyro.conf.arg(name="import")] = ()
    """Modules of your own to import first, by name or path."""
    find: str = ""
    """Print only names that contain this text, in upper or lower case."""


def show_list(config: ListConfig, console: Console | None = None) -> None:
    """Print the lists."""
    console = console or Console()
    plugins.load(config.imports)
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
    """Ids of environments with their kind and what keeps them from being used, installed packages' ids included."""
    entries = {}
    with warnings.catch_warnings(action="ignore"), _quiet_gymnasium():
        for name, family in environment_kinds().items():
            kind = "of mmrs" if name.startswith("mmrs/") else family.title
            obstacle = "" if family.package or kind == "of mmrs" else _obstacle(name)
            if family.package and find_spec(family.package) is None:
                obstacle = f"not installed: pip install 'mmrs[{family.extra}]'"
            entries[name] = f"{kind}, {obstacle}" if obstacle else kind
    return entries


def _obstacle(name: str) -> str:
    """Why an environment cannot be used; empty if it can. It is made and closed, which takes milliseconds."""
    try:
        make_single(name).close()
    except UnsupportedSpaceError as error:
        return f"not supported: {str(error).removeprefix(f'{name}: ').partition(';')[0].partition(' is not')[0]}"
    except Exception as error:
        cause = error.__cause__
        if isinstance(error, MissingExtraError) or isinstance(cause, _MISSING):
            what = str(cause or error).partition(" is not installed")[0].removeprefix("No module named ").strip("'")
            return f"not installed: {_one_line(what)}"
        return "cannot be made"
    return ""


@contextlib.contextmanager
def _quiet_gymnasium() -> Iterator[None]:
    """Keep Gymnasium's logger from printing that a version is out of date."""
    level = gym.logger.min_level
    gym.logger.min_level = gym.logger.ERROR
    try:
        yield
    finally:
        gym.logger.min_level = level


def rewards() -> Entries:
    """Names of rewards with the first sentences of their docstrings."""
    return {name: describe(entry.factory) for name, entry in REWARDS.items()} | {"none": "Plain PPO."}


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
