"""How processes with environments end: with their owner, by its will, and not by signals that are meant for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.util import Finalize
from typing import Any


def end_with(owner: object, processes: Sequence[Any]) -> Callable[[], object]:
    """End the processes when the object that owns them is gone, or Python exits, or the function returned is called.

    Python's own way at its exit, and Gymnasium's, is SIGTERM, which `leave_signals_to_owner` ignores; this comes first.
    """
    return Finalize(owner, _end, (processes, os.getpid()), exitpriority=10)


def _end(processes: Sequence[Any], owner: int) -> None:
    if os.getpid() == owner:  # and not a copy of the owner, in which all this stands too
        for process in processes:
            process.kill()  # one that hangs inside a simulator hears no other signal
            process.join()


def leave_signals_to_owner() -> None:
    """In a process: Ctrl-C, the end of a terminal and a scheduler's SIGTERM reach all processes of a run; its owner
    decides what they mean, and needs the environments to save."""
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
