"""`metrics.jsonl`, the record of a run: one JSON object a line, appended as it happens, cut back when a run resumes."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from mmrs.errors import InputError, StorageError

Row = dict[str, Any]


class Position(NamedTuple):
    """How far the record had come when a checkpoint was taken."""

    rows: int
    bytes: int


class Record(NamedTuple):
    """What a metrics file holds."""

    rows: list[Row]
    bad: int
    """Lines that are not JSON objects: at most the last one, unless somebody edited the file."""


class MetricsFile:
    """The open record of a run; each row is with the operating system when `append` returns."""

    def __init__(self, path: Path, resume_at: Position | None = None) -> None:
        """Args:
        path: of the file.
        resume_at: where the checkpoint was taken: rows after it are dropped, since they will be written again.
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
        """Write a row. A number that is not finite is refused, and so never reaches the disk."""
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
        """Where the record ends, brought to the disk: what a checkpoint should hold."""
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
        """After the last whole line: a half-written one, left by a kill, is dropped."""
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
                "Training goes on exactly; the record keeps what whole lines there are.",
                stacklevel=3,
            )
        end = content.rfind(b"\n") + 1
        os.ftruncate(self._handle, end)
        return Position(content.count(b"\n", 0, end), end)


def read_metrics(path: Path) -> Record:
    """The good rows of a metrics file and how many lines were bad; also of a run that is still being written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}.") from error
    rows, bad = [], 0
    for line in content.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            bad += 1
    return Record(rows, bad)
