"""The display of `mmrs train`: progress, time left, speed, returns and shares of the bonus, one row per run.

A terminal gets a live table; anything else (a log file, a pipe) gets a plain line every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mmrs.runs.console import LiveView, NotebookView

LINE_EVERY = 5.0
"""Seconds between plain lines."""
SUCCESS = "env/success"
"""Metric: share of the last episodes that the environment reports as a success."""
RETURNS = ("episode_return", "game_return")
"""Metrics: returns of lives and of whole games, the same number where there are no lives."""
SMOOTHING = 0.1
"""Weight of the newest update in the speed that is shown."""


@dataclass
class Progress:
    """Progress of one run."""

    name: str
    total: int
    """Agent steps of the whole run."""
    step: int = 0
    speed: float = 0.0
    """Steps per second, smoothed."""
    row: dict[str, Any] = field(default_factory=dict)
    status: str = ""
    """Why it is not running: "done", "stopped", ..."""

    def take(self, row: Mapping[str, Any]) -> None:
        """Update from a row of metrics."""
        self.step, self.row = int(row["step"]), dict(row)
        now = float(row.get("steps_per_second", 0.0))
        self.speed = now if not self.speed else self.speed + SMOOTHING * (now - self.speed)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left at the present speed; None before the first update."""
        return (self.total - self.step) / self.speed if self.speed else None


class Display(LiveView):
    """Shows the progress of one or several runs; use as a context manager."""

    in_notebooks = True

    def __init__(
        self,
        runs: Mapping[str, int],
        *,
        console: Console | None = None,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        runs: total number of agent steps by name of the run.
        console: console to draw on; None: standard error, for as long as somebody reads it.
        quiet: show nothing.
        clock: returns seconds.
        """
        super().__init__(console, quiet)
        self.runs = {name: Progress(name, total) for name, total in runs.items()}
        self.clock = clock
        self._printed = dict.fromkeys(self.runs, -LINE_EVERY)
        self._printed_step = dict.fromkeys(self.runs, 0)
        self._updated: dict[str, float] = {}

    def update(self, name: str, row: Mapping[str, Any]) -> None:
        """Show a row of metrics of a run."""
        self._updated[name] = self.clock()  # first: a signal handler may call `update_left` at any moment
        self.runs[name].take(row)
        if isinstance(self._live, NotebookView):
            self._live.refresh()
        if self._live:
            return  # drawn a few times a second
        if not self.quiet and self.clock() - self._printed[name] >= LINE_EVERY:
            self._printed[name] = self.clock()
            self._printed_step[name] = self.runs[name].step
            self.print_line(plain_line(self.runs[name]))

    def update_left(self, name: str) -> float | None:
        """Seconds until the present update of a run ends, if it takes as long as the last one did; None: unknown."""
        seconds = self.runs[name].row.get("seconds")
        return None if seconds is None else float(seconds) - (self.clock() - self._updated[name])

    def set_status(self, name: str, status: str, sentence: str = "") -> None:
        """Show why a run no longer runs.

        Args:
            name: name of the run.
            status: one word for the table: "done", "stopped".
            sentence: printed once, below the table on a terminal, so that it can be copied.
        """
        if not self.quiet and not self._live and self.runs[name].step != self._printed_step[name]:
            self.print_line(plain_line(self.runs[name]))  # so that a log has the final score
        self.runs[name].status = status
        if not self.quiet and (sentence or not self._live):
            self.print_below(f"{name}: {sentence or status}")

    def draw(self) -> RenderableType:
        """The view as it is now."""
        runs = list(self.runs.values())
        return Group(overview(runs), *(reward_table(run) for run in runs if len(runs) == 1 and run.row))


def overview(runs: list[Progress]) -> Table:
    """A table with one row per run."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column("run", overflow="fold", vertical="bottom")  # the one column that may wrap on a narrow terminal
    table.add_column("progress", width=10)
    # Environments that report success have no lives, and success says more than their return.
    succeeds = any(SUCCESS in run.row for run in runs)
    returns = ("game_return",) if succeeds or not any(has_lives(run.row) for run in runs) else RETURNS
    # Two lines per title, so that no value is cut at 80 columns.
    titles = ["\nreturn"] if len(returns) == 1 else ["return\none life", "return\nfull game"]
    scores = ["\nsuccess", *titles] if succeeds else titles
    for title in ("\nsteps", "\nleft", "\nsteps/s", *scores, "bonus in\nadvantage"):
        table.add_column(title, justify="right", no_wrap=True)
    for run in runs:
        table.add_row(
            Text(run.name),
            ProgressBar(total=run.total, completed=min(run.step, run.total), width=10),
            f"{short_count(run.step)}/{short_count(run.total)}",
            run.status or duration(run.seconds_left),
            f"{run.speed:,.0f}" if run.speed else "–",
            *([_percent(run.row.get(SUCCESS))] if succeeds else []),
            *(_number(run.row.get(name)) for name in returns),
            _percent(run.row.get("bonus_advantage_share")),
        )
    return table


def has_lives(row: Mapping[str, Any]) -> bool:
    """Whether lives and games differ so far, as in Atari games."""
    life, game = (row.get(name) for name in RETURNS)
    return life is not None and life != game


def reward_table(run: Progress) -> Table:
    """The reward terms: mean per step, and share of the sum by size."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("reward term", "mean per step", "share"):
        table.add_column(title, justify="left" if title == "reward term" else "right")
    for name in reward_terms(run.row):
        share = run.row[f"reward/{name}_share"]
        table.add_row(Text(name), f"{run.row.get(f'reward/{name}', 0.0):+.4g}", _percent(share))
    return table


def reward_terms(row: Mapping[str, Any]) -> list[str]:
    """Names of the reward terms of a row, the extrinsic reward first."""
    names = [
        key[len("reward/") : -len("_share")] for key in row if key.startswith("reward/") and key.endswith("_share")
    ]
    return sorted(names, key=lambda name: (name != "extrinsic", name))


def plain_line(run: Progress) -> str:
    """The progress of a run as one line for logs."""
    parts = [
        f"{run.name}: {short_count(run.step)}/{short_count(run.total)} steps ({run.step / max(run.total, 1):.0%})",
        f"{run.speed:,.0f}/s",
        f"{duration(run.seconds_left)} left",
    ]
    titles = ("one-life return", "full-game return") if has_lives(run.row) else ("", "return")
    parts += [f"{t} {_number(run.row[key])}" for t, key in zip(titles, RETURNS, strict=True) if t and key in run.row]
    if SUCCESS in run.row:
        parts.append(f"success {_percent(run.row[SUCCESS])}")
    shares = [f"{name} {_percent(run.row[f'reward/{name}_share'])}" for name in reward_terms(run.row)]
    parts += [f"reward: {', '.join(shares)}"] if shares else []
    if "bonus_advantage_share" in run.row:
        parts.append(f"bonus in advantages {_percent(run.row['bonus_advantage_share'])}")
    return " | ".join(parts)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}" if abs(value) < 1e4 else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}" if value >= 0.0995 or value == 0 else f"{value:.1%}"


def short_count(steps: int) -> str:
    """A number of steps in short form: 512k, 10M."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if steps >= 10 * size or steps >= size > 10**3:
            return f"{steps / size:.4g}{letter}"
    return str(steps)


def duration(seconds: float | None) -> str:
    """Seconds as hours, minutes and seconds."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
