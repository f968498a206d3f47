"""A run as the report and the audit see it: read fast, also from a folder that is still being written to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.errors import StorageError
from mmrs.runs.history import ERROR, is_finished, read_starts
from mmrs.runs.metrics_log import sample_metrics
from mmrs.runs.upgrade import upgrade_config, upgrade_finding
from mmrs.storage.files import read_regular

POINTS = 128
"""Rows that curves are drawn from, evenly spaced, the first and the last among them."""
_SMALL = 1 << 22
_ERROR_CHARACTERS = 4000
VERSION_SEPARATOR = " then "
"""Stands between versions where more than one trained a run."""

_DRAWN = ("step", "episode_return", "game_return", "coverage", "fairness", "bonus_advantage_share", "steps_per_second")
_DRAWN_GROUPS = ("reward/", "env/")

Column = NDArray[np.float64]


@dataclass(frozen=True)
class RunRecord:
    """One run with its metrics."""

    path: Path
    config: dict[str, Any]
    """The configuration as JSON: a run that this version could not continue is shown too."""
    columns: dict[str, Column] = field(repr=False)
    """Returns, rewards, coverage and speed at up to `POINTS` rows; NaN where a row does not have them."""
    rows: int
    """Lines that were read: about `POINTS` of a long file, evenly spaced."""
    bad_lines: int
    """Lines that were read and are not whole, or not rows."""
    finished: bool
    version: str
    """Version of mmrs that started the run, and of others that continued it; or "unknown"."""
    command: str
    error: str
    """Traceback of the last failure; empty once the run has finished."""
    findings: tuple[dict[str, Any], ...] = ()
    """Findings of `mmrs audit`, if it was run."""
    sweep_label: str = ""
    """Name that its sweep gives the method, if the run belongs to a sweep."""

    @property
    def env(self) -> str:
        """Id of the environment."""
        return str(self.config["env"]["id"])

    @property
    def method(self) -> str:
        """Name of the method in the sweep, else of the bonus; `ppo` where there is none."""
        name = self.sweep_label or str(self.config["bonus"]["name"])
        return "ppo" if name == "none" else name

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.config["seed"])

    @property
    def total(self) -> int:
        """Agent steps of the whole run."""
        return int(self.config["steps"])

    @property
    def step(self) -> int:
        """Agent steps of the last row."""
        return int(self.columns["step"][-1]) if len(self.columns.get("step", ())) else 0

    def last(self, name: str) -> float | None:
        """The newest value of a metric; None where there is none."""
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
    starts = read_starts(path)
    versions = dict.fromkeys(str(start.get("version", "unknown")) for start in starts)
    finished = is_finished(path) or (len(columns["step"]) > 0 and columns["step"][-1] >= config["steps"])
    return RunRecord(
        path=path,
        config=config,
        columns=columns,
        rows=rows,
        bad_lines=bad,
        finished=finished,
        version=VERSION_SEPARATOR.join(versions) or "unknown",
        command=str(starts[0].get("command", "")) if starts else "",
        error="" if finished else _text(path / ERROR)[-_ERROR_CHARACTERS:],
        findings=_findings(path / "audit.json"),
    )


def is_run(path: Path) -> bool:
    """Whether a folder is that of a training run."""
    return (path / "config.json").is_file()


def _config(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_regular(path, _SMALL))
        data = upgrade_config(content["config"]) if content.get("schema") == 1 else content["config"]
        _ = data["env"]["id"], data["bonus"]["name"], int(data["seed"]), int(data["steps"])
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise StorageError(f"{path} is not the configuration of a run.") from error
    return {**data, **{name: content[name] for name in ("loss", "extended") if name in content}}


def _columns(path: Path) -> tuple[dict[str, Column], int, int]:
    """The metrics as columns, the number of lines that were read and how many of them are bad."""
    record = sample_metrics(path, POINTS)
    rows = [row for row in record.rows if type(row.get("step")) is int]
    columns = _table(rows)
    columns.setdefault("step", np.zeros(0))
    return columns, record.lines, record.bad_lines + len(record.rows) - len(rows)


def _table(rows: list[dict[str, Any]]) -> dict[str, Column]:
    """The columns that are drawn. Names that only some rows have are looked for at the start, the end and between."""
    some = rows[:1] + rows[len(rows) // 2 :: 50] + rows[-1:]
    found = dict.fromkeys(name for row in some for name in row)
    names = [name for name in found if name in _DRAWN or name.startswith(_DRAWN_GROUPS)]
    try:
        table = np.array(list(map(itemgetter(*names), rows)), np.float64)
    except (KeyError, TypeError, ValueError):  # some rows lack some names, as before the first episode has ended
        values = [[v if isinstance(v := row.get(name), int | float) else np.nan for name in names] for row in rows]
        table = np.array(values, np.float64)
    return dict(zip(names, table.reshape(len(rows), len(names)).T, strict=True))


def _findings(path: Path) -> tuple[dict[str, Any], ...]:
    try:
        found = json.loads(_text(path) or "{}").get("findings", [])
        return tuple(upgrade_finding(dict(one)) for one in found)
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
