"""Several long calls at once, each of which waits for another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread


def at_once(calls: Sequence[Callable[[], object]]) -> None:
    """Make all calls and wait for them, or for the first error, which is raised."""
    ends: SimpleQueue[BaseException | None] = SimpleQueue()
    for call in calls:
        Thread(target=_told, args=(call, ends), daemon=True).start()  # who stops waiting need not wait for the others
    for _ in calls:
        error = ends.get()
        if error is not None:
            raise error


def _told(call: Callable[[], object], ends: SimpleQueue[BaseException | None]) -> None:
    try:
        call()
        ends.put(None)
    except BaseException as error:
        ends.put(error)
