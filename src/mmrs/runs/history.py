"""The history of a run: each attempt with its command and versions, and whether the run finished."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mmrs
from mmrs.errors import StorageError
from mmrs.runs.metrics_log import last_row, parse_row
from mmrs.storage.files import read_regular, write_atomic

ATTEMPTS, FINISHED, ERROR = "attempts.jsonl", "finished.json", "error.txt"
_LIMIT = 1 << 22


def is_finished(folder: Path) -> bool:
    """Whether the run came to its end."""
    return (folder / FINISHED).is_file()


def mark_finished(folder: Path, step: int) -> None:
    """Mark a run as finished, and remove the error of an earlier attempt."""
    facts = {"version": mmrs.__version__, "step": step, "time": _now()}
    write_atomic(folder / FINISHED, json.dumps(facts, indent=2) + "\n", durable=True)
    try:
        (folder / ERROR).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {folder / ERROR}: {error.strerror or error}.") from error


def mark_extended(folder: Path, old: int, new: int) -> None:
    """Record that a run gets longer, and that it is not finished any more."""
    facts = {"steps_before": old, "steps": new, "schedules": f"they decay towards step {new} from here on"}
    log_event(folder, "extended", int(last_row(folder / "metrics.jsonl").get("step", 0)), **facts)
    try:
        (folder / FINISHED).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {folder / FINISHED}: {error.strerror or error}.") from error


@contextlib.contextmanager
def record_attempt(folder: Path, step: Callable[[], int], command: str | None = None) -> Iterator[Callable[[], None]]:
    """Record one attempt at a run; yields the function to call when the run has come to its end.

    Args:
        folder: folder of the run, locked by this process.
        step: returns the present step; called at the start and at the end.
        command: command to record; None: that of this process.
    """
    finished = is_finished(folder)
    if finished:  # nothing is left to do
        yield lambda: None
        return
    about = {"version": mmrs.__version__, "command": command or current_command(), "libraries": library_versions()}
    log_event(folder, "start", step(), **about, host=platform.node(), pid=os.getpid())

    def end() -> None:
        nonlocal finished
        mark_finished(folder, step())
        finished = True

    try:
        yield end
    except BaseException:
        log_event(folder, "failed", step())
        raise
    log_event(folder, "finished" if finished else "stopped", step())


def log_event(folder: Path, event: str, step: int, **facts: Any) -> None:
    """Append a line to `attempts.jsonl` of the run."""
    line = json.dumps({"event": event, "time": _now(), "step": step, **facts}) + "\n"
    try:
        handle = os.open(folder / ATTEMPTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
        try:
            os.write(handle, line.encode())  # one call: lines of two processes never mix
        finally:
            os.close(handle)
    except OSError as error:
        raise StorageError(f"cannot write {folder / ATTEMPTS}: {error.strerror or error}.") from error


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """The recorded starts of a run, oldest first; lines and files that cannot be read are left out."""
    path = folder / ATTEMPTS
    if not path.is_file():
        return []
    try:
        lines = read_regular(path, _LIMIT).split(b"\n")
    except StorageError:
        return []
    rows = (parse_row(line) for line in lines)
    return [row for row in rows if row and row.get("event") == "start"]


def library_versions() -> dict[str, str]:
    """Versions of the installed libraries that the results of a run depend on."""
    found = {}
    for name in ("torch", "numpy", "gymnasium", "ale-py", "pybullet"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def current_command() -> str:
    """The command line of this process."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
