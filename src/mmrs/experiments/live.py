"""A picture that a terminal shows while something goes on; anything else gets plain lines from whoever has news."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mmrs.experiments.lasting_console import lasting_console


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
