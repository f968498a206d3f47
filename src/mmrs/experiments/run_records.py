"""Reading one run's record for the report: fast, and whatever is whole of a folder that may still be written to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.errors import StorageError
from mmrs.experiments.attempts import ATTEMPTS, ERROR, is_finished
from mmrs.experiments.disk import read_regular

try:  # of a million lines: three times as fast, and nothing else differs
    from orjson import loads
except ImportError:
    loads = json.loads  # type: ignore[assignment]

POINTS = 128
"""Rows of a record that curves are drawn from, evenly spaced, the first and the last among them."""
_SMALL = 1 << 22
_RECORD = 1 << 31
_ERROR_CHARACTERS = 4000

_DRAWN = ("step", "life_return", "game_return", "coverage", "fairness", "bonus_advantage_share", "steps_per_second")
_DRAWN_GROUPS = ("reward/", "env/")

Column = NDArray[np.float64]


@dataclass(frozen=True)
class RunRecord:
    """What the report knows of one run."""

    path: Path
    config: dict[str, Any]
    """As JSON: a run of another version is shown too, though this one could not continue it."""
    columns: dict[str, Column] = field(repr=False)
    """Returns, rewards, coverage and speed at up to `POINTS` rows; NaN where a row does not have them."""
    rows: int
    """Whole lines of the record."""
    bad: int
    """Lines that could not be read."""
    finished: bool
    version: str
    """Of the mmrs that started it, or "unknown"."""
    command: str
    error: str
    """Traceback of the last failure, if the run has not got over it."""
    findings: tuple[dict[str, Any], ...] = ()
    """What `mmrs audit` wrote down, if it was asked."""
    called: str = ""
    """What its sweep calls the method, if it is of a sweep."""

    @property
    def env(self) -> str:
        """Id of the environment."""
        return str(self.config["env"]["id"])

    @property
    def method(self) -> str:
        """As the sweep calls it, or the name of the bonus; `ppo` where there is none."""
        name = self.called or str(self.config["bonus"]["name"])
        return "ppo" if name == "none" else name

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(self.config["seed"])

    @property
    def total(self) -> int:
        """Steps the run is to take."""
        return int(self.config["steps"])

    @property
    def step(self) -> int:
        """Steps the record tells of."""
        return int(self.columns["step"][-1]) if len(self.columns.get("step", ())) else 0

    def last(self, name: str) -> float | None:
        """The newest value of a number; None where the record has none."""
        values = self.columns.get(name, np.zeros(0))
        there = values[~np.isnan(values)]
        return float(there[-1]) if len(there) else None


def read_run(path: Path) -> RunRecord:
    """Read a run's folder.

    Raises:
        StorageError: the configuration is not that of a run.
    """
    config = _config(path / "config.json")
    columns, rows, bad = _columns(path / "metrics.jsonl")
    start = _first_start(path / ATTEMPTS)
    finished = is_finished(path) or (len(columns["step"]) > 0 and columns["step"][-1] >= config["steps"])
    return RunRecord(
        path=path,
        config=config,
        columns=columns,
        rows=rows,
        bad=bad,
        finished=finished,
        version=str(start.get("version", "unknown")),
        command=str(start.get("command", "")),
        error="" if finished else _text(path / ERROR)[-_ERROR_CHARACTERS:],
        findings=_findings(path / "audit.json"),
    )


def is_run(path: Path) -> bool:
    """Whether a folder is that of a training run."""
    return (path / "config.json").is_file()


def _config(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(read_regular(path, _SMALL))["config"]
        _ = data["env"]["id"], data["bonus"]["name"], int(data["seed"]), int(data["steps"])
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise StorageError(f"{path} is not the configuration of a run.") from error
    return dict(data)


def _columns(path: Path) -> tuple[dict[str, Column], int, int]:
    """The numbers of the record, how many whole lines it has and how many bad ones."""
    content = read_regular(path, _RECORD) if path.is_file() else b""
    lines = content.split(b"\n")
    whole = [line for line in lines if line[:1] == b"{" and line[-1:] == b"}"]
    bad = sum(1 for line in lines if line.strip()) - len(whole)
    rows: list[dict[str, Any]] = []
    for index in np.unique(np.linspace(0, len(whole) - 1, POINTS).astype(int)) if whole else ():
        try:
            rows.append(loads(whole[index]))
        except (ValueError, RecursionError):
            bad += 1
    steps = [row for row in rows if type(row.get("step")) is int]
    bad += len(rows) - len(steps)
    names = {name: None for row in (steps[:1] + steps[len(steps) // 2 :: 50] + steps[-1:]) for name in row}
    columns = {n: _numbers(steps, n) for n in names if n in _DRAWN or n.startswith(_DRAWN_GROUPS)}
    columns.setdefault("step", np.zeros(0))
    return columns, len(whole), bad


def _numbers(rows: list[dict[str, Any]], name: str) -> Column:
    values = [row.get(name) for row in rows]
    try:
        return np.array(values, np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        return np.array([v if isinstance(v, int | float) else np.nan for v in values], np.float64)


def _first_start(path: Path) -> dict[str, Any]:
    for line in _text(path).splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and row.get("event") == "start":
            return row
    return {}


def _findings(path: Path) -> tuple[dict[str, Any], ...]:
    try:
        found = json.loads(_text(path) or "{}").get("findings", [])
        return tuple(dict(one) for one in found)
    except (ValueError, RecursionError, AttributeError, TypeError):
        return ()


def _text(path: Path) -> str:
    """A small text file; empty where there is none, or where it is no plain file."""
    if not path.is_file():
        return ""
    try:
        return read_regular(path, _SMALL).decode(errors="replace")
    except StorageError:
        return ""
