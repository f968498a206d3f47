"""The table of the maze experiment on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from mmrs.experiments.maze_result import MazeCell, MazeResult

_MARKS = {"baseline": "", "faster": "[green]▲[/]", "slower": "[red]▼ SLOWER[/]", "undecided": "="}
_TITLES = {
    "coverage": "Steps until every cell was seen (coverage: the goal is an ordinary cell)",
    "literal": "Steps until every cell was seen (literal: the goal pays 1 and ends the episode)",
}


def show(result: MazeResult, console: Console) -> None:
    """Print the table, then what it does not show: capped runs, redrawn mazes, and why a method lost."""
    table = Table(title=_TITLES[result.protocol], title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("maze", "method", "mean [95 %]", "median", "capped", "seen %", "ratio [95 %]"):
        table.add_column(heading, justify="left" if heading in ("maze", "method") else "right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for cell in result.cells:
        table.add_row(*_row(cell), end_section=cell.method == result.cells[-1].method)
    console.print(table)
    for line in notes(result):
        console.print(line, highlight=False)


def _row(cell: MazeCell) -> tuple[str, ...]:
    bound = ">" if cell.censored else ""  # a capped run enters at the cap: the mean is a lower bound
    mean = f"{bound}{cell.mean:.0f} [{cell.mean_low:.0f}, {cell.mean_high:.0f}]"
    ratio = ""
    if cell.ratio is not None:
        ratio = f"{cell.ratio:.2f} [{cell.ratio_low:.2f}, {cell.ratio_high:.2f}]"
    name, seen, mark = f"{cell.kind} {cell.size}", f"{100 * cell.covered:.4g}", _MARKS[cell.verdict]
    return name, cell.method, mean, f"{cell.median:.0f}", str(cell.censored), seen, ratio, mark


def notes(result: MazeResult) -> list[str]:
    """The sentences beneath the table."""
    cells = result.cells
    lines = [
        "ratio: mean of vanilla / mean of the method on the same mazes; ▲ faster, ▼ slower, = undecided."
    ]
    if any(cell.censored for cell in cells):
        lines.append("> some runs hit the step cap and enter the mean at the cap: it is a lower bound.")
    for cell in cells:
        if cell.verdict == "slower":
            lines.append(f"{cell.method} loses on {cell.kind} {cell.size}x{cell.size}: {cell.reason}.")
    redrawn = ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in result.unreachable.items() if rate)
    if redrawn:
        lines.append(f"First draws with a cell out of reach, drawn again: {redrawn}.")
    pace = f"{result.env_steps:.3g} steps in {result.seconds:.1f} s"
    lines.append(f"{cells[0].mazes} mazes a row, {pace} ({result.env_steps / result.seconds:.2g}/s).")
    return lines
