"""A picture that a terminal shows while something goes on; anything else gets plain lines from whoever has news."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any, Self, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


class LiveView:
    """Draws `draw()` a few times a second while used as a context manager, if the console is a terminal."""

    redraws_per_second = 4.0

    def __init__(self, console: Console | None, quiet: bool) -> None:
        """Args:
        console: to draw on; None: standard error, for as long as somebody reads it.
        quiet: show nothing.
        """
        self.console, self.quiet = console or lasting_console(), quiet
        self._live: Live | None = None
        self._announced = ""
        self._last_words: list[str] = []

    def draw(self) -> RenderableType:
        """The picture as it is now."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it shows.")

    def say(self, text: str) -> None:
        """A plain line, whatever characters it holds."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def say_last(self, text: str) -> None:
        """A plain line that stays under the picture; said at once where there is none."""
        if self._live:
            self._last_words.append(text)
        else:
            self.say(text)

    def announce(self, text: str) -> bool:
        """Show a text above the picture from its next drawing on; False if there is no picture.

        It takes no lock, so signal handlers may call it.
        """
        if self._live is None or not self.console.is_interactive:
            return False
        self._announced = text
        return True

    def _picture(self) -> RenderableType:
        return Group(Text(self._announced, style="bold"), self.draw()) if self._announced else self.draw()

    def __enter__(self) -> Self:
        if not self.quiet and self.console.is_terminal:
            rate = self.redraws_per_second
            self._live = Live(get_renderable=self._picture, console=self.console, refresh_per_second=rate)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()
            self._live = None
        while self._last_words:
            self.say(self._last_words.pop(0))


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


def print_whole(table: Table, console: Console) -> None:
    """Print a table at the width it needs: a narrow terminal wraps its lines, no number loses its digits."""
    for column in table.columns:
        column.no_wrap = True
    # What a table wants is capped by the console that is asked, so ask a console without an end.
    endless = Console(width=10_000)
    needed = Measurement.get(endless, endless.options, table).maximum
    wide = Console(file=console.file, width=max(console.width, needed), no_color=console.no_color)
    wide.print(table)
