"""A picture that a terminal shows while something goes on; anything else gets plain lines from whoever has news."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live


class LiveView:
    """Draws `draw()` a few times a second while used as a context manager, if the console is a terminal."""

    redraws_per_second = 4.0

    def __init__(self, console: Console | None, quiet: bool) -> None:
        """Args:
        console: to draw on; None: standard error, so that results on standard output stay clean.
        quiet: show nothing.
        """
        self.console, self.quiet = console or Console(stderr=True), quiet
        self._live: Live | None = None

    def draw(self) -> RenderableType:
        """The picture as it is now."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it shows.")

    def say(self, text: str) -> None:
        """A plain line, whatever characters it holds."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        if not self.quiet and self.console.is_terminal:
            rate = self.redraws_per_second
            self._live = Live(get_renderable=self.draw, console=self.console, refresh_per_second=rate)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()
            self._live = None
