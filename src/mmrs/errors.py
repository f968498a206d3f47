"""Errors of the package. Each message names what was wrong, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.util import find_spec


class MmrsError(Exception):
    """Base of every error the package raises on purpose; the command line prints it without a traceback."""


class InputError(MmrsError, ValueError):
    """An argument, array or file that the package cannot use."""


class UnsupportedSpaceError(InputError):
    """An observation or action space that no reward can read."""


class NotCausalError(MmrsError, TypeError):
    """A reward that needs the whole rollout was given to a host that works step by step."""


class TrainingError(MmrsError, RuntimeError):
    """Training cannot go on: a value is no longer finite, or a run cannot be continued exactly."""


class StorageError(MmrsError):
    """A file, a checkpoint or a run folder that cannot be written, or cannot be trusted."""


class RunBusyError(InputError):
    """Another process works on the same run."""


class EnvError(MmrsError, RuntimeError):
    """An environment died, hung, raised or returned values that cannot be learned from."""


class MissingExtraError(MmrsError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        is_not, it = ("are not", "them") if " and " in package else ("is not", "it")
        super().__init__(f"{package} {is_not} installed. Install {it} with: pip install 'mmrs[{extra}]'")


def require_packages(**extras: str) -> None:
    """Raise an error that names every missing package at once; before a command makes a folder or starts its work.

    Args:
        extras: the extra that brings each module, by the module's name.
    """
    missing = {module: extra for module, extra in extras.items() if find_spec(module) is None}
    if missing:
        *others, last = missing
        names = f"{', '.join(others)} and {last}" if others else last
        raise MissingExtraError(names, ",".join(dict.fromkeys(missing.values())))


def ensure_period(text: object) -> str:
    """Append a period if the text has no final punctuation."""
    stripped = str(text).rstrip()
    return stripped if stripped.endswith((".", "!", "?")) else f"{stripped}."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint `Did you mean ...?` for a misspelled name, and the list of known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{hint}Known: {', '.join(names)}."
