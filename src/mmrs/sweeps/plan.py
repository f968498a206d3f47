"""`sweep.json`: what belongs to a sweep, written before its first run."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mmrs
from mmrs.errors import InputError, StorageError, near_matches
from mmrs.runs.config_json import from_json, require_same, to_json
from mmrs.runs.history import ATTEMPTS
from mmrs.runs.metrics_log import read_metrics
from mmrs.storage.files import hold_lock, read_regular, release_lock, replace_durably
from mmrs.sweeps.suites import Cell

PLAN, _LOCK = "sweep.json", ".lock"
SCHEMA = 1
_LIMIT = 1 << 28


@dataclass(frozen=True)
class Plan:
    """The content of `sweep.json`; docs/sweeps.md explains each key."""

    schema: int
    suite: str
    version: str
    command: str
    settings: dict[str, Any]
    cells: tuple[Cell, ...]


def read_plan(folder: Path) -> Plan:
    """The plan of the sweep in a folder.

    Raises:
        InputError: there is none.
    """
    path = folder / PLAN
    if not path.is_file():
        beside = [p.parent.name for p in folder.parent.glob(f"*/{PLAN}")] if folder.parent.is_dir() else []
        hint = near_matches(folder.name, beside) if beside else "Start one with: mmrs sweep SUITE"
        raise InputError(f"{folder} holds no sweep: it has no {PLAN}. {hint}")
    try:
        data = json.loads(read_regular(path, _LIMIT))
        cells = tuple(Cell(**cell) for cell in data.pop("cells"))
        plan = Plan(cells=cells, **data)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]}).") from error
    if plan.schema != SCHEMA:
        raise StorageError(f"{path} has the schema {plan.schema!r}, but this version of mmrs reads {SCHEMA}.")
    return plan


def enter(folder: Path, plan: Plan, kinds: dict[str, type]) -> Plan:
    """Write the plan, or join it with the one that is there: cells are added, none is changed or dropped.

    Args:
        folder: of the sweep; made if missing.
        plan: of the present command.
        kinds: the configuration class of each kind of cell.

    Raises:
        InputError: the folder holds something else, or the same runs with other settings.
    """
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    # In this order: a sweep that starts beside this one has its plan before its first run.
    if names - {_LOCK, f".{PLAN}.part"} and not (folder / PLAN).exists():
        raise InputError(
            f"{folder} is not empty and holds no sweep ({PLAN} is missing). Choose a new folder with --out."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(folder):
            if (folder / PLAN).exists():
                plan = _joined(read_plan(folder), plan, folder, kinds)
            replace_durably(folder / PLAN, json.dumps(to_json(plan), indent=1).encode() + b"\n")
    except OSError as error:
        raise StorageError(f"cannot write {folder / PLAN}: {error.strerror or error}.") from error
    return plan


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Two sweeps that start together must not lose each other's cells."""
    handle = hold_lock(folder / _LOCK, wait=True)
    try:
        yield
    finally:
        release_lock(handle)


def _joined(old: Plan, new: Plan, folder: Path, kinds: dict[str, type]) -> Plan:
    if old.suite != new.suite:
        raise InputError(
            f"{folder} holds a sweep of {old.suite}, not of {new.suite}. Choose another folder with --out."
        )
    there = {cell.name: cell for cell in old.cells}
    for cell in new.cells:
        if cell.name in there and there[cell.name].config != cell.config:
            kind = kinds[cell.kind]
            saved: Any = from_json(kind, there[cell.name].config, f"{folder / PLAN}: {cell.name}")
            require_same(saved, from_json(kind, cell.config), folder / cell.name)
    cells = tuple({**there, **{cell.name: cell for cell in new.cells}}.values())
    return replace(old, cells=cells, settings=old.settings | extent(cells))


def extent(cells: tuple[Cell, ...]) -> dict[str, Any]:
    """How many seeds, and which games and methods."""
    return {
        "seeds": len({cell.seed for cell in cells}),
        "games": list(dict.fromkeys(cell.env for cell in cells)),
        "methods": list(dict.fromkeys(cell.method for cell in cells)),
    }


def other_versions(folder: Path, cells: tuple[Cell, ...]) -> Counter[str]:
    """How many runs were started by which other version of mmrs."""
    found: Counter[str] = Counter()
    for cell in cells:
        path = folder / cell.name / ATTEMPTS
        versions = {row.get("version") for row in read_metrics(path).rows} if path.is_file() else set()
        found.update(str(version) for version in versions - {None, mmrs.__version__})
    return found


def require_one_version(folder: Path, cells: tuple[Cell, ...]) -> None:
    """Refuse to mix results of two versions of mmrs, which may not compare."""
    others = other_versions(folder, cells)
    if others:
        said = ", ".join(f"{count} by mmrs {version}" for version, count in sorted(others.items()))
        raise InputError(
            f"{folder} holds runs of other versions ({said}; this is {mmrs.__version__}), whose results may differ. "
            "Use that version, choose a new folder with --out, or mix them on purpose with --mix-versions."
        )
