"""Collect runs from many folders: find, read and label them, and compare them with what their sweeps planned."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mmrs.errors import InputError, StorageError, did_you_mean
from mmrs.runs.history import is_finished
from mmrs.runs.records import VERSION_SEPARATOR, RunRecord, is_run, read_run
from mmrs.storage.files import read_regular

_LIMIT = 1 << 28
_IGNORED_KEYS = {
    *("seed", "root", "name", "quiet", "device", "threads", "wandb", "checkpoint_every"),
    *("env.id", "env.threads", "env.groups", "env.vectorization", "env.step_timeout", "bonus.name"),
}
"""Settings that name a run or describe where and how it ran; they do not make it another experiment."""
_ABSENT = "absent"
"""Value of a setting that a run's version did not have."""


@dataclass(frozen=True)
class Planned:
    """A run that a sweep has planned."""

    env: str
    method: str
    seed: int


@dataclass(frozen=True)
class Collection:
    """The contents of a set of folders."""

    runs: tuple[RunRecord, ...]
    labels: tuple[str, ...]
    """Method of each run: the bonus, and the settings in which it differs from most runs of that bonus and game."""
    planned: tuple[Planned, ...]
    suites: tuple[str, ...]
    tables: tuple[Path, ...]
    """Folders of sweeps that hold tables (mazes, the grid world) instead of a training run."""
    problems: tuple[str, ...]


def collect(folders: Sequence[Path]) -> Collection:
    """Read every run in and below these folders.

    Raises:
        InputError: a folder does not exist, or there is no run and no sweep in any of them.
    """
    paths, sweeps, tables, problems = _find(folders)
    runs, unread = _read(paths)
    plan, more = _read_sweeps(sweeps)
    problems += [*unread, *more, *_table_problems(plan.tables, tables)]
    planned, suites = tuple(plan.planned), tuple(plan.suites)
    runs = [replace(run, sweep_label=plan.labels.get(run.path, "")) for run in runs]
    if not (runs or planned or tables):
        named = ", ".join(str(folder) for folder in folders)
        trouble = f" {problems[0]}" if problems else ""
        raise InputError(
            f"there is no run in {named}: no folder there holds a readable config.json.{trouble} Runs are made by "
            "`mmrs train` and `mmrs sweep`."
        )
    runs, copies = _without_copies(runs)
    problems += [*copies, *_record_problems(runs), *_version_problems(runs)]
    return Collection(tuple(runs), tuple(_labels(runs)), planned, suites, tuple(tables), tuple(problems))


def _find(folders: Sequence[Path]) -> tuple[list[Path], list[Path], list[Path], list[str]]:
    """Folders of runs, files of sweeps, folders of tables, and problems; folders of runs are not searched further."""
    runs: dict[Path, None] = {}
    sweeps: dict[Path, None] = {}
    tables: dict[Path, None] = {}
    seen: set[Path] = set()
    links: list[Path] = []
    problems: list[str] = []

    def unreadable(error: OSError) -> None:
        problems.append(f"{error.filename} cannot be read ({error.strerror}). Its contents are left out.")

    for folder in folders:
        _require_folder(folder)
        for parent, below, files in os.walk(folder, onerror=unreadable):
            below[:] = sorted(name for name in below if not name.startswith("."))
            here = Path(parent).resolve()
            seen.add(here)
            if is_run(here):
                runs[here], below[:] = None, []
            elif "job.json" in files:
                tables[here], below[:] = None, []
            elif "metrics.jsonl" in files:
                problems.append(f"{here} has a record but no config.json that describes the run. It is left out.")
            if "sweep.json" in files:
                sweeps[here / "sweep.json"] = None
            links += [path for name in below if (path := here / name).is_symlink()]
    for link in links:
        if link.resolve() not in seen:
            problems.append(f"{link} is a link to a folder and was not followed; to include that folder, name it too.")
    return list(runs), list(sweeps), list(tables), problems


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        parent = folder.parent
        beside = [p.name for p in parent.iterdir() if p.is_dir()] if parent.is_dir() else []
        hint = did_you_mean(folder.name, beside) if beside else ""
        raise InputError(f"there is no folder {folder}. {hint}".strip())


def _read(paths: Iterable[Path]) -> tuple[list[RunRecord], list[str]]:
    runs, problems = [], []
    for path in paths:
        try:
            runs.append(read_run(path))
        except StorageError as error:
            problems.append(f"{error} It is left out.")
    return runs, problems


@dataclass(frozen=True)
class _Plan:
    """The plans of all sweeps that were found."""

    planned: dict[Planned, None] = field(default_factory=dict)
    suites: dict[str, None] = field(default_factory=dict)
    labels: dict[Path, str] = field(default_factory=dict)
    """The sweep's name for the method of a run, by the run's folder."""
    tables: set[str] = field(default_factory=set)
    """Names of the folders planned for tables."""


def _read_sweeps(paths: Iterable[Path]) -> tuple[_Plan, list[str]]:
    plan, problems = _Plan(), []
    for path in paths:
        try:
            data = json.loads(read_regular(path, _LIMIT))
            plan.suites[str(data["suite"])] = None
            trained = [cell for cell in data["cells"] if cell.get("kind", "train") == "train"]
            plan.planned.update({Planned(str(c["env"]), str(c["method"]), int(c["seed"])): None for c in trained})
            plan.labels.update({path.parent / str(c["name"]): str(c["method"]) for c in trained})
            plan.tables.update(str(c["name"]) for c in data["cells"] if c.get("kind", "train") != "train")
        except (StorageError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            problems.append(f"{path} cannot be read: runs that it planned and that are missing are not reported.")
    return plan, problems


# --- which runs belong to one experiment ------------------------------------------------------------------------------


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        elif prefix + name not in _IGNORED_KEYS:
            flat[prefix + name] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return flat


def _without_copies(runs: list[RunRecord]) -> tuple[list[RunRecord], list[str]]:
    """One run of each configuration and seed: folders copied from several machines may hold it twice."""
    longest: dict[Any, RunRecord] = {}
    for run in runs:
        key = (run.env, run.method, run.seed, json.dumps(_flat(run.config), sort_keys=True))
        if key not in longest or (run.step, run.finished) > (longest[key].step, longest[key].finished):
            longest[key] = run
    copies = len(runs) - len(longest)
    problems = [f"{copies} of the runs are there more than once; the longest of each is used."] if copies else []
    return list(longest.values()), problems


def _labels(runs: list[RunRecord]) -> list[str]:
    """Name of each run's bonus, with the settings in which it differs from most runs of that bonus in that game."""
    flat = [_flat(run.config) for run in runs]
    groups: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for run, settings in zip(runs, flat, strict=True):
        groups[run.env, run.method].append(settings)
    usual = {
        key: {name: Counter(s.get(name, _ABSENT) for s in group).most_common(1)[0][0] for name in _all_names(group)}
        for key, group in groups.items()
        if any(settings != group[0] for settings in group)
    }
    labels = []
    for run, settings in zip(runs, flat, strict=True):
        common = usual.get((run.env, run.method), settings)
        own = {name: settings.get(name, _ABSENT) for name in common}
        other = [f"{name}={value}" for name, value in own.items() if common[name] != value]
        labels.append(f"{run.method} ({', '.join(other)})" if other else run.method)
    return labels


def _all_names(group: list[dict[str, str]]) -> dict[str, None]:
    """Names of all settings of a group; they can differ between versions."""
    return dict.fromkeys(name for settings in group for name in settings)


# --- problems ---------------------------------------------------------------------------------------------------------


def _record_problems(runs: list[RunRecord]) -> list[str]:
    cut = [run for run in runs if run.bad_lines]
    empty = [run for run in runs if not run.rows]
    problems = []
    if cut:
        lines = sum(run.bad_lines for run in cut)
        problems.append(
            f"{lines} half-written or damaged lines in the records of {_names(cut)}; every good line is used."
        )
    if empty:
        problems.append(f"No metrics yet from {_names(empty)}.")
    return problems


def _table_problems(planned: set[str], folders: Iterable[Path]) -> list[str]:
    missing = planned - {folder.name for folder in folders if is_finished(folder)}
    return [f"{len(missing)} of the sweep's {len(planned)} tables are not finished yet."] if missing else []


def _version_problems(runs: list[RunRecord]) -> list[str]:
    counts = Counter(run.version for run in runs)
    if len(counts) < 2 and not any(VERSION_SEPARATOR in version for version in counts):
        return []
    listed = ", ".join(f"{count} by {version}" for version, count in sorted(counts.items()))
    return [f"The runs were made by different versions of mmrs: {listed}. Their scores may not be comparable."]


def _names(runs: list[RunRecord]) -> str:
    names = [run.path.name for run in runs[:3]]
    more = f" and {len(runs) - 3} more" if len(runs) > 3 else ""
    return ", ".join(names) + more
