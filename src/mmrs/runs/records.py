"""Reading one run's record for the report: fast, and whatever is whole of a folder that may still be written to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mmrs.errors import StorageError
from mmrs.runs.history import ATTEMPTS, ERROR, is_finished
from mmrs.storage.files import open_regular, read_regular

try:  # of a million lines: three times as fast, and nothing else differs
    from orjson import loads
except ImportError:
    loads = json.loads  # type: ignore[assignment]

POINTS = 128
"""Rows of a record that curves are drawn from, evenly spaced, the first and the last among them."""
_SMALL = 1 << 22
_WINDOW = 1 << 13
"""Bytes read at each place of a long record: several lines."""
_ERROR_CHARACTERS = 4000
THEN = " then "
"""Between versions where more than one made a run."""

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
    """Whole lines that were read: of a long record about `POINTS`, evenly spaced."""
    bad: int
    """Of the lines that were read, those that are not whole, or not rows."""
    finished: bool
    version: str
    """Of the mmrs that started it, and of others that went on with it; or "unknown"."""
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
    starts = _starts(path / ATTEMPTS)
    versions = dict.fromkeys(str(start.get("version", "unknown")) for start in starts)
    finished = is_finished(path) or (len(columns["step"]) > 0 and columns["step"][-1] >= config["steps"])
    return RunRecord(
        path=path,
        config=config,
        columns=columns,
        rows=rows,
        bad=bad,
        finished=finished,
        version=THEN.join(versions) or "unknown",
        command=str(starts[0].get("command", "")) if starts else "",
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
    except (ValueError, RecursionError, KeyError, TypeError, OverflowError) as error:
        raise StorageError(f"{path} is not the configuration of a run.") from error
    return dict(data)


def _columns(path: Path) -> tuple[dict[str, Column], int, int]:
    """The numbers of the record, how many lines were read and how many of them are bad."""
    if path.is_symlink() or path.exists():
        with open_regular(path) as (file, size):
            lines = _sampled(file, size) if size > POINTS * _WINDOW else file.read(size).split(b"\n")
    else:
        lines = []
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
    columns = _table(steps)
    columns.setdefault("step", np.zeros(0))
    return columns, len(whole), bad


def _sampled(file: BinaryIO, size: int) -> list[bytes]:
    """Lines at evenly spaced places, the first and the last among them: ten million steps are ten megabytes a run."""
    lines = []
    for place in np.linspace(0, size - _WINDOW, POINTS).astype(int).tolist():
        file.seek(place)
        parts = file.read(_WINDOW).split(b"\n")
        lines.append(parts[0] if place == 0 else parts[1] if len(parts) > 2 else b"")
    return [*lines, *parts[2:]]  # the last window ends the file: what stands there counts, whole or not


def _table(rows: list[dict[str, Any]]) -> dict[str, Column]:
    """The columns that are drawn; names that only a few rows have are looked for at the start, the end and between."""
    some = rows[:1] + rows[len(rows) // 2 :: 50] + rows[-1:]
    found = dict.fromkeys(name for row in some for name in row)
    names = [name for name in found if name in _DRAWN or name.startswith(_DRAWN_GROUPS)]
    try:
        table = np.array(list(map(itemgetter(*names), rows)), np.float64)
    except (KeyError, TypeError, ValueError):  # some rows lack some names, as before the first episode has ended
        numbers = [[v if isinstance(v := row.get(name), int | float) else np.nan for name in names] for row in rows]
        table = np.array(numbers, np.float64)
    return dict(zip(names, table.reshape(len(rows), len(names)).T, strict=True))


def _starts(path: Path) -> list[dict[str, Any]]:
    """Every start of the run, oldest first."""
    starts = []
    for line in _text(path).splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and row.get("event") == "start":
            starts.append(row)
    return starts


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
