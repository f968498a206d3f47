"""Terminal output: live views, a console that survives broken pipes and closed terminals, tables without cuts."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import IO, Any, Self, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


class NotebookView:
    """A cell's output that is drawn anew, as `rich.live.Live` does in a terminal; needs no widgets."""

    def __init__(self, draw: Callable[[], RenderableType], seconds: float) -> None:
        """Args:
        draw: returns what to show.
        seconds: time between two drawings.
        """
        self._draw, self._seconds = draw, seconds
        self._drawn = time.monotonic()
        self._handle: Any = None

    def start(self) -> None:
        """Show it under the cell."""
        from IPython.display import display  # noqa: PLC0415  a notebook has it

        self._handle = display(self._content(), raw=True, display_id=True)

    def refresh(self) -> None:
        """Draw it anew if it is time."""
        if time.monotonic() - self._drawn >= self._seconds:
            self.stop()

    def stop(self) -> None:
        """Draw the last state."""
        self._drawn = time.monotonic()
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        console = Console(file=io.StringIO(), record=True, width=100, force_jupyter=False)
        console.print(self._draw())
        text = console.export_text(clear=False)
        return {
            "text/plain": text,
            "text/html": console.export_html(inline_styles=True, code_format="<pre>{code}</pre>"),
        }


class LiveView:
    """Shows what `draw` returns, redrawn a few times per second; a context manager. Needs a terminal to be visible."""

    redraws_per_second = 4.0
    in_notebooks = False
    """Whether to redraw in a notebook's cell too. Then each change calls `NotebookView.refresh`."""

    def __init__(self, console: Console | None, quiet: bool) -> None:
        """Args:
        console: console to draw on; None: standard error, for as long as somebody reads it.
        quiet: show nothing.
        """
        self.console, self.quiet = console or resilient_console(), quiet
        self._live: Live | NotebookView | None = None
        self._announced = ""
        self._closing_lines: list[str] = []

    def draw(self) -> RenderableType:
        """The view as it is now."""
        raise NotImplementedError(f"{type(self).__name__} must implement draw().")

    def print_line(self, text: str) -> None:
        """Print a plain line; no character is read as markup."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def print_below(self, text: str) -> None:
        """Print a plain line under the view when it is closed; at once where there is none."""
        if self._live:
            self._closing_lines.append(text)
        else:
            self.print_line(text)

    def announce(self, text: str) -> bool:
        """Show a text above the view from its next drawing on; False if there is no view.

        Takes no lock, so signal handlers may call it.
        """
        if self._live is None or not self.console.is_interactive:
            return False
        self._announced = text
        return True

    def _view(self) -> RenderableType:
        return Group(Text(self._announced, style="bold"), self.draw()) if self._announced else self.draw()

    def __enter__(self) -> Self:
        rate = self.redraws_per_second
        if self.in_notebooks and not self.quiet and self.console.is_jupyter:
            self._live = NotebookView(self._view, 1 / rate)
        elif not self.quiet and self.console.is_terminal:
            self._live = Live(get_renderable=self._view, console=self.console, refresh_per_second=rate)
        if self._live:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()
            self._live = None
        while self._closing_lines:
            self.print_line(self._closing_lines.pop(0))


def resilient_console(*, stderr: bool = True) -> Console:
    """A console on standard error (or standard output) that survives broken pipes and closed terminals."""
    return Console(file=cast("IO[str]", _ResilientStream(Console(stderr=stderr).file)))


class _ResilientStream:
    """A text stream that may lose its reader: writing to it never raises."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._ignoring_lost_reader():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._ignoring_lost_reader():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _ignoring_lost_reader(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError:  # a reader that is slow, not gone: it misses this text
            pass
        except UnicodeError:
            raise  # a ValueError too, but a fault of the text
        except (OSError, ValueError):  # EPIPE of a pipe, EIO of a terminal, ENOSPC of a file; a stream that was closed
            self._redirect_to_null()

    def _redirect_to_null(self) -> None:
        # The descriptor itself is redirected: libraries and environments write to it too, and an error that they do not
        # expect would end the run as well.
        with contextlib.suppress(OSError, ValueError):  # no descriptor behind it: every text is dropped one by one
            descriptor = self._stream.fileno()
            null = os.open(os.devnull, os.O_WRONLY)
            try:
                os.dup2(null, descriptor)
            finally:
                os.close(null)


def print_untruncated(table: Table, console: Console) -> None:
    """Print a table at the width it needs: a narrow terminal wraps its lines instead of cutting numbers."""
    for column in table.columns:
        column.no_wrap = True
    # A console caps the width it measures at its own, so measure on a very wide one.
    unlimited = Console(width=10_000)
    needed = Measurement.get(unlimited, unlimited.options, table).maximum
    wide = Console(file=console.file, width=max(console.width, needed), no_color=console.no_color)
    wide.print(table)
