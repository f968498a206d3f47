"""A console that outlives its reader: when the pipe or the terminal goes away it falls silent, and the work goes on.

rich ends the process when a pipe is closed, which is right for a listing and wrong for a run of many hours.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, Any, cast

from rich.console import Console


def lasting_console(*, stderr: bool = True) -> Console:
    """A console on standard error, so that results on standard output stay clean, or on standard output."""
    return Console(file=cast("IO[str]", _LastingStream(Console(stderr=stderr).file)))


class _LastingStream:
    """A text stream that nobody has to read: writing to it never raises."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._forgiving():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._forgiving():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:  # a reader that is slow, not gone: it misses this text
            pass
        except UnicodeError:
            raise  # a ValueError too, but of the text
        except (OSError, ValueError):  # EPIPE of a pipe, EIO of a terminal, ENOSPC of a file; a stream that was closed
            self._fall_silent()

    def _fall_silent(self) -> None:
        # The descriptor itself goes nowhere from now on: others write to it too (libraries, environments), and an error
        # that they do not expect would end the run as well.
        with contextlib.suppress(OSError, ValueError):  # no descriptor behind it: each text is lost by itself
            descriptor = self._stream.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(nowhere, descriptor)
            finally:
                os.close(nowhere)
