"""Ctrl-C and SIGTERM: the first asks the loop to stop where it can save, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""128 + the signal's number, as shells and schedulers expect."""
_WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class StopSignals:
    """While entered, signals set `requested` instead of raising.

    An exception out of nowhere could cut an update or a save in half; a flag is read between them.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the run should save and stop at the next place where it can."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What the process should return: 0 if no signal came."""
        return EXIT_CODES[self.signal] if self.signal else 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python delivers signals to no other thread
            for number in EXIT_CODES:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        received = signal.Signals(number)
        if self.signal is None:
            self.signal = received
            self._say(f"\n{_WORDS[received]}: saving after this update. Once more ends the process at once, unsaved.\n")
        else:
            self._say("\nEnded without saving; the last checkpoint is untouched.\n")
            os._exit(EXIT_CODES[received])  # not sys.exit: this must work inside a save and inside native code

    @staticmethod
    def _say(text: str) -> None:
        # Not through sys.stderr: its lock may be held by the very code that was interrupted.
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())


def resume_hint(run: os.PathLike[str] | str, step: int) -> str:
    """What to tell the user when a run stopped before its end."""
    return f"Stopped and saved at step {step}. Continue with: mmrs train --resume {os.fspath(run)}"
