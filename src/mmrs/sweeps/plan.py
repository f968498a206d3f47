"""`sweep.json`: the runs of a sweep, written before the first of them starts."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mmrs
from mmrs.errors import InputError, StorageError, did_you_mean
from mmrs.runs.config_json import from_json, require_same, to_json
from mmrs.runs.history import read_starts
from mmrs.runs.upgrade import upgrade_config, upgrade_reward
from mmrs.storage.files import hold_lock, is_draft, read_regular, release_lock, write_atomic
from mmrs.sweeps.suites import RunSpec

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
    cells: tuple[RunSpec, ...]
    """One entry per run."""


def read_plan(folder: Path) -> Plan:
    """The plan of the sweep in a folder.

    Raises:
        InputError: there is none.
    """
    path = folder / PLAN
    if not path.is_file():
        beside = [p.parent.name for p in folder.parent.glob(f"*/{PLAN}")] if folder.parent.is_dir() else []
        hint = did_you_mean(folder.name, beside) if beside else "Start one with: mmrs sweep SUITE"
        raise InputError(f"{folder} holds no sweep: it has no {PLAN}. {hint}")
    try:
        data = json.loads(read_regular(path, _LIMIT))
        specs = tuple(_upgraded(RunSpec(**spec)) for spec in data.pop("cells"))
        plan = Plan(cells=specs, **data)
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]}).") from error
    if plan.schema != SCHEMA:
        raise StorageError(f"{path} has the schema {plan.schema!r}, but this version of mmrs reads {SCHEMA}.")
    return plan


def write_or_merge(folder: Path, plan: Plan, kinds: dict[str, type]) -> Plan:
    """Write the plan, or merge it with the one that is there: runs are added, none is changed or dropped.

    Args:
        folder: folder of the sweep; made if missing.
        plan: plan of the present command.
        kinds: the configuration class of each kind of run.

    Raises:
        InputError: the folder holds something else, or the same runs with other settings.
    """
    names = {path.name for path in folder.iterdir() if not is_draft(path.name)} if folder.is_dir() else set()
    # In this order: a sweep that starts beside this one has its plan before its first run.
    if names - {_LOCK} and not (folder / PLAN).exists():
        raise InputError(
            f"{folder} is not empty and holds no sweep ({PLAN} is missing). Choose a new folder with --out."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _plan_lock(folder):
            if (folder / PLAN).exists():
                plan = _merged(read_plan(folder), plan, folder, kinds)
            write_atomic(folder / PLAN, json.dumps(to_json(plan), indent=1) + "\n", durable=True)
    except OSError as error:
        raise StorageError(f"cannot write {folder / PLAN}: {error.strerror or error}.") from error
    return plan


def _upgraded(spec: RunSpec) -> RunSpec:
    """A run that an earlier version planned, with the present names of settings; its folder keeps its name."""
    return replace(spec, method=upgrade_reward(spec.method), config=upgrade_config(spec.config))


@contextlib.contextmanager
def _plan_lock(folder: Path) -> Iterator[None]:
    """Hold the lock on the plan: two sweeps that start together must not lose each other's runs."""
    handle = hold_lock(folder / _LOCK, wait=True)
    try:
        yield
    finally:
        release_lock(handle)


def _merged(old: Plan, new: Plan, folder: Path, kinds: dict[str, type]) -> Plan:
    if old.suite != new.suite:
        raise InputError(
            f"{folder} holds a sweep of {old.suite}, not of {new.suite}. Choose another folder with --out."
        )
    known = {spec.name: spec for spec in old.cells}
    for spec in new.cells:
        if spec.name in known and known[spec.name].config != spec.config:
            kind = kinds[spec.kind]
            saved: Any = from_json(kind, known[spec.name].config, f"{folder / PLAN}: {spec.name}")
            require_same(saved, from_json(kind, spec.config), folder / spec.name)
    # A reward that was renamed names its runs anew: the run that is there counts, under its old name.
    runs = {(spec.kind, spec.env, spec.method, spec.seed): spec.name for spec in old.cells}
    added = [
        spec for spec in new.cells if runs.get((spec.kind, spec.env, spec.method, spec.seed), spec.name) == spec.name
    ]
    specs = tuple({**known, **{spec.name: spec for spec in added}}.values())
    return replace(old, cells=specs, settings=old.settings | grid_summary(specs))


def grid_summary(specs: tuple[RunSpec, ...]) -> dict[str, Any]:
    """Number of seeds, and the games and methods: how far a sweep extends."""
    return {
        "seeds": len({spec.seed for spec in specs}),
        "games": list(dict.fromkeys(spec.env for spec in specs)),
        "methods": list(dict.fromkeys(spec.method for spec in specs)),
    }


def other_versions(folder: Path, specs: tuple[RunSpec, ...]) -> Counter[str]:
    """Number of runs that were started by each other version of mmrs."""
    found: Counter[str] = Counter()
    for spec in specs:
        versions = {start.get("version") for start in read_starts(folder / spec.name)}
        found.update(str(version) for version in versions - {None, mmrs.__version__})
    return found


def require_one_version(folder: Path, specs: tuple[RunSpec, ...]) -> None:
    """Refuse to mix results of two versions of mmrs, which may not compare."""
    others = other_versions(folder, specs)
    if others:
        listed = ", ".join(f"{count} by mmrs {version}" for version, count in sorted(others.items()))
        raise InputError(
            f"{folder} holds runs of other versions ({listed}; this is {mmrs.__version__}), whose results may differ. "
            "Use that version, choose a new folder with --out, or mix them on purpose with --mix-versions."
        )
