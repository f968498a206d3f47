"""What happened to a run: who started it with which command and version, and whether it came to its end."""

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
from mmrs.storage.files import replace_durably

ATTEMPTS, FINISHED, ERROR = "attempts.jsonl", "finished.json", "error.txt"


def is_finished(folder: Path) -> bool:
    """Whether the run came to its end; says nothing of how."""
    return (folder / FINISHED).is_file()


def mark_finished(folder: Path, step: int) -> None:
    """Say for good that a run is at its end; an error it once had is history then."""
    facts = {"version": mmrs.__version__, "step": step, "time": _now()}
    try:
        replace_durably(folder / FINISHED, json.dumps(facts, indent=2).encode() + b"\n")
        (folder / ERROR).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {folder / FINISHED}: {error.strerror or error}.") from error


@contextlib.contextmanager
def attempt(folder: Path, step: Callable[[], int], command: str | None = None) -> Iterator[Callable[[], None]]:
    """Record one try at a run; yields the function to call when the run has come to its end.

    Args:
        folder: of the run, held by this process.
        step: where the run stands, asked at the start and at the end.
        command: behind the try; None: this process's own.
    """
    finished = is_finished(folder)
    if finished:  # looked at again, not tried again
        yield lambda: None
        return
    about = {"version": mmrs.__version__, "command": command or own_command(), "libraries": libraries()}
    note(folder, "start", step(), **about, host=platform.node(), pid=os.getpid())

    def end() -> None:
        nonlocal finished
        mark_finished(folder, step())
        finished = True

    try:
        yield end
    except BaseException:
        note(folder, "failed", step())
        raise
    note(folder, "finished" if finished else "stopped", step())


def note(folder: Path, event: str, step: int, **facts: Any) -> None:
    """Add a line to the run's attempts."""
    line = json.dumps({"event": event, "time": _now(), "step": step, **facts}) + "\n"
    try:
        handle = os.open(folder / ATTEMPTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
        try:
            os.write(handle, line.encode())  # one call: lines of two processes never mix
        finally:
            os.close(handle)
    except OSError as error:
        raise StorageError(f"cannot write {folder / ATTEMPTS}: {error.strerror or error}.") from error


def libraries() -> dict[str, str]:
    """Versions of what the numbers of a run depend on beside mmrs, where installed."""
    found = {}
    for name in ("torch", "numpy", "gymnasium", "ale-py", "pybullet"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def own_command() -> str:
    """The command line of this process."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
