"""`metrics.jsonl`: one JSON object per update, appended during training, truncated on resume, and its one reader."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from mmrs.errors import InputError, StorageError
from mmrs.runs.upgrade import upgrade_metrics
from mmrs.storage.files import open_regular

try:  # three times as fast on a million lines, and nothing else differs
    from orjson import loads
except ImportError:
    from json import loads  # type: ignore[assignment]

Row = dict[str, Any]
_WINDOW = 1 << 13
"""Bytes read at each offset of a long file: several lines."""
_TAIL = 1 << 14
"""Bytes read for the last row."""


class Position(NamedTuple):
    """Length of the file when a checkpoint was taken."""

    rows: int
    bytes: int


class Record(NamedTuple):
    """What was read of a metrics file."""

    rows: list[Row]
    lines: int
    """Lines that were read."""
    bad_lines: int
    """Those that are not JSON objects: at most the last one, unless somebody edited the file."""


class MetricsFile:
    """The open metrics file of a run; each row is with the operating system when `append` returns."""

    def __init__(self, path: Path, resume_at: Position | None = None) -> None:
        """Args:
        path: file to append to; made if missing.
        resume_at: position in the checkpoint: rows after it are dropped, since they will be written again.
        """
        self.path = path
        try:
            # NOFOLLOW: a run folder from elsewhere must not make us write to what a link points at.
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(path, flags, 0o644)
        except OSError as error:
            raise StorageError(f"cannot open {path}: {error.strerror or error}.") from error
        self._position = self._cut(resume_at) if resume_at else self._end()

    def append(self, row: Mapping[str, Any]) -> None:
        """Write a row. A value that is not finite is refused, and so never reaches the disk."""
        for name, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{name} is {value} in row {self._position.rows}: metrics must be finite.")
        try:
            line = json.dumps(row, allow_nan=False).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise InputError(f"row {self._position.rows} of the metrics is not plain finite JSON: {error}.") from error
        try:
            written = os.write(self._handle, line)
            if written != len(line):  # a disk that fills up takes a part, and fails at the next call
                raise OSError(f"only {written} of {len(line)} bytes could be written")
        except OSError as error:
            raise StorageError(f"cannot write to {self.path}: {error.strerror or error}. Is the disk full?") from error
        self._position = Position(self._position.rows + 1, self._position.bytes + len(line))

    def position(self) -> Position:
        """The end of the file, after waiting until it is on the disk: what a checkpoint should hold."""
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise StorageError(f"cannot write to {self.path}: {error.strerror or error}.") from error
        return self._position

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _end(self) -> Position:
        """The position after the last whole line; a half-written line, left by a kill, is dropped."""
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        os.ftruncate(self._handle, end)
        return Position(content.count(b"\n", 0, end), end)

    def _cut(self, at: Position) -> Position:
        content = self.path.read_bytes()[: at.bytes]
        whole = len(content) == at.bytes and content.count(b"\n") == at.rows and content[-1:] in (b"\n", b"")
        if not whole:
            warnings.warn(
                f"{self.path} does not hold the {at.rows} rows of the checkpoint: it was changed since. "
                "Training goes on exactly; the file keeps the whole lines there are.",
                stacklevel=3,
            )
        end = content.rfind(b"\n") + 1
        os.ftruncate(self._handle, end)
        return Position(content.count(b"\n", 0, end), end)


def read_metrics(path: Path) -> Record:
    """All whole rows of a metrics file, also while it is being written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}.") from error
    lines = [line for line in content.split(b"\n") if line.strip()]
    rows = [row for line in lines if (row := parse_row(line)) is not None]
    return Record(rows, len(lines), len(lines) - len(rows))


def sample_metrics(path: Path, points: int) -> Record:
    """About `points` evenly spaced rows of a metrics file, the first and the last among them; none without a file.

    A long file is read in as many small windows: ten million training steps write ten megabytes.
    """
    if not path.is_symlink() and not path.exists():
        return Record([], 0, 0)
    with open_regular(path) as (file, size):
        lines = _windows(file, size, points) if size > points * _WINDOW else file.read(size).split(b"\n")
    whole = [line for line in lines if line[:1] == b"{" and line[-1:] == b"}"]
    bad = sum(1 for line in lines if line.strip()) - len(whole)
    chosen = np.unique(np.linspace(0, len(whole) - 1, points).astype(int)) if whole else ()
    rows = [row for index in chosen if (row := parse_row(whole[index])) is not None]
    return Record(rows, len(whole), bad + len(chosen) - len(rows))


def last_row(path: Path) -> Row:
    """The newest whole row of a metrics file that may be being written; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    return next((row for line in reversed(lines) if (row := parse_row(line)) is not None), {})


def parse_row(line: bytes | str) -> Row | None:
    """The JSON object of a line; None for anything else."""
    try:
        row = loads(line)
    except (ValueError, RecursionError):
        return None
    return upgrade_metrics(row) if isinstance(row, dict) else None


def _windows(file: BinaryIO, size: int, points: int) -> list[bytes]:
    """Lines at evenly spaced offsets, one per window; all lines of the last window, which ends the file."""
    lines = []
    for offset in np.linspace(0, size - _WINDOW, points).astype(int).tolist():
        file.seek(offset)
        parts = file.read(_WINDOW).split(b"\n")
        lines.append(parts[0] if offset == 0 else parts[1] if len(parts) > 2 else b"")
    return [*lines, *parts[2:]]
