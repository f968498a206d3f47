"""Tables of numbers that no narrow terminal or pipe cuts short."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


def print_whole(table: Table, console: Console) -> None:
    """Print a table at the width it needs: a narrow terminal wraps its lines, no number loses its digits."""
    for column in table.columns:
        column.no_wrap = True
    # What a table wants is capped by the console that is asked, so ask a console without an end.
    endless = Console(width=10_000)
    needed = Measurement.get(endless, endless.options, table).maximum
    wide = Console(file=console.file, width=max(console.width, needed), no_color=console.no_color)
    wide.print(table)
