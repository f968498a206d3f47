"""Ctrl-C, SIGTERM and SIGHUP: the first makes the loop save and stop, the second ends the process at once.

SIGHUP comes when a terminal or its connection goes away; under `nohup` it is ignored, and stays so.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
"""128 + the signal's number, as shells and schedulers expect."""
_NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
_SHOW_CURSOR = "\x1b[?25h"


class StopSignals:
    """A context in which signals set `requested` instead of raising.

    An exception at an arbitrary point could cut an update or a save in half; the flag is read between them.
    """

    def __init__(
        self, show: Callable[[str], bool] = lambda _: False, update_left: Callable[[], float | None] = lambda: None
    ) -> None:
        """Args:
        show: shows a text in a live view on the terminal, which would draw over a line that is written beside it.
            Returns False where there is none; then the line is written. Runs in a signal handler: it must take no lock.
        update_left: returns the seconds until the present update ends; None: unknown.
        """
        self.signal: signal.Signals | None = None
        self._show, self._update_left = show, update_left
        self._received_one = self._shown = False
        self._before: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether the run should save and stop as soon as it can."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """Exit code of the process: 0 if no signal came."""
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

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Give the signals back for a while: in code of the caller, Ctrl-C interrupts at once."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        received = signal.Signals(number)
        if received != signal.SIGHUP:  # not counted: the shell and the kernel each send one for one closed terminal
            if self._received_one:
                cursor = _SHOW_CURSOR if self._shown else ""  # a live view hides it
                _write(f"\n{cursor}Ended without saving; the last checkpoint is untouched.\n")
                os._exit(EXIT_CODES[received])  # not sys.exit: this must work inside a save and inside native code
            self._received_one = True
        if self.signal is None:
            self.signal = received
            text = self._message(received)
            self._shown = self._show(text)
            if not self._shown:
                _write(f"\n{text}\n")

    def _message(self, received: signal.Signals) -> str:
        word, left = _NAMES[received], self._update_left()
        pace = f" (about {left:.0f} s left at the present pace)" if left and left >= 1 else ""
        again = "" if received == signal.SIGHUP else f" {word} again ends at once, without saving."
        return f"{word}: stopping after this update{pace} and saving.{again}"


def _write(text: str) -> None:
    """Write to standard error, if it is still open."""
    # Not through sys.stderr: its lock may be held by the very code that was interrupted.
    if sys.__stderr__:
        with contextlib.suppress(OSError, ValueError):  # ValueError: it was closed
            os.write(sys.__stderr__.fileno(), text.encode())


def resume_hint(run: os.PathLike[str] | str, step: int, loss: str | None = None) -> str:
    """The message for a run that stopped before its end; one with a loss of its own continues in Python."""
    path = os.fspath(run)
    how = f"mmrs.resume({path!r}, loss={loss.rpartition('.')[2]})" if loss else f"mmrs train --resume {path}"
    return f"Stopped and saved at step {step}. Continue with: {how}"
