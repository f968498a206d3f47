"""Ctrl-C, SIGTERM and SIGHUP: the first asks the loop to stop where it can save, the second ends the process at once.

SIGHUP comes when a terminal or its connection goes away; under `nohup` it is ignored, and stays so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
"""128 + the signal's number, as shells and schedulers expect."""
_WORDS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
_SHOW_CURSOR = "\x1b[?25h"


class StopSignals:
    """While entered, signals set `requested` instead of raising.

    An exception out of nowhere could cut an update or a save in half; a flag is read between them.
    """

    def __init__(
        self, show: Callable[[str], bool] = lambda _: False, update_left: Callable[[], float | None] = lambda: None
    ) -> None:
        """Args:
        show: shows a text in a picture on the terminal, where a line written past it would be drawn over; False: it
            cannot, so the line is written. Called inside a signal handler: it must take no lock.
        update_left: seconds until the present update ends; None: unknown.
        """
        self.signal: signal.Signals | None = None
        self._show, self._update_left = show, update_left
        self._asked = self._shown = False
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
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        received = signal.Signals(number)
        if received != signal.SIGHUP:  # not counted: the shell and the kernel both tell of one terminal that went away
            if self._asked:
                cursor = _SHOW_CURSOR if self._shown else ""  # a picture hides it
                _write(f"\n{cursor}Ended without saving; the last checkpoint is untouched.\n")
                os._exit(EXIT_CODES[received])  # not sys.exit: this must work inside a save and inside native code
            self._asked = True
        if self.signal is None:
            self.signal = received
            text = self._answer(received)
            self._shown = self._show(text)
            if not self._shown:
                _write(f"\n{text}\n")

    def _answer(self, received: signal.Signals) -> str:
        word, left = _WORDS[received], self._update_left()
        pace = f" (about {left:.0f} s left at the present pace)" if left and left >= 1 else ""
        again = "" if received == signal.SIGHUP else f" {word} again ends at once, without saving."
        return f"{word}: stopping after this update{pace} and saving.{again}"


def _write(text: str) -> None:
    """Write to standard error, whoever is still there to read it."""
    # Not through sys.stderr: its lock may be held by the very code that was interrupted.
    if sys.__stderr__:
        with contextlib.suppress(OSError, ValueError):  # ValueError: it was closed
            os.write(sys.__stderr__.fileno(), text.encode())


def resume_hint(run: os.PathLike[str] | str, step: int) -> str:
    """What to tell the user when a run stopped before its end."""
    return f"Stopped and saved at step {step}. Continue with: mmrs train --resume {os.fspath(run)}"
