"""The table of the maze experiment on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from mmrs.paper.maze.results import MazeCell, MazeResult
from mmrs.runs.console import print_whole

_MARKS = {"baseline": "", "faster": "[green]▲[/]", "slower": "[red]▼[/]", "undecided": "="}
_TITLES = {
    "coverage": "Steps until every cell was seen (coverage: the goal is an ordinary cell)",
    "literal": "Steps until every cell was seen (literal: the goal pays 1 and ends the episode)",
}

_RATIO_OF_CAPPED = {
    (True, False): "ratio is a lower bound (vanilla alone was capped)",
    (False, True): "ratio is an upper bound (the method alone was capped)",
    (True, True): "ratio is no bound, neither lower nor upper (both were capped)",
}


def show(result: MazeResult, console: Console) -> None:
    """Print the table, then what it does not show: capped runs, redrawn mazes, and why a method lost."""
    title = _TITLES[result.protocol]
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    headings = ["maze", "method", "mean [95 %]", "median", "capped", "ratio [95 %]", ""]
    rows = [_row(cell) for cell in result.cells]
    if any(cell.censored for cell in result.cells):
        headings.insert(5, "seen %")
        for row, cell in zip(rows, result.cells, strict=True):
            row.insert(5, f"{100 * cell.covered:.1f}")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("maze", "method") else "right")
    for row, cell in zip(rows, result.cells, strict=True):
        table.add_row(*row, end_section=cell.method == result.cells[-1].method)
    print_whole(table, console)
    for line in notes(result):
        console.print(line, highlight=False, soft_wrap=True)


def _row(cell: MazeCell) -> list[str]:
    bound = ">" if cell.censored else ""  # a capped run enters at the cap: the mean is a lower bound
    mean = f"{bound}{cell.mean:.0f} [{cell.mean_low:.0f}, {cell.mean_high:.0f}]"
    ratio = ""
    if cell.ratio is not None:
        ratio = f"{cell.ratio:.2f} [{cell.ratio_low:.2f}, {cell.ratio_high:.2f}]"
    name, mark = f"{cell.kind} {cell.size}", _MARKS[cell.verdict]
    return [name, cell.method, mean, f"{cell.median:.0f}", str(cell.censored), ratio, mark]


def notes(result: MazeResult) -> list[str]:
    """The sentences beneath the table."""
    cells = result.cells
    lines = ["ratio: mean of vanilla / mean of the method on the same mazes; ▲ faster, ▼ slower, = undecided."]
    if any(cell.censored for cell in cells):
        lines.append("> some runs hit the step cap and enter the mean at the cap: it is a lower bound.")
        lines += _ratio_bounds(result)
    for method, reason in dict.fromkeys((c.method, c.reason) for c in cells if c.verdict == "slower"):
        where = [f"{c.kind} {c.size}" for c in cells if (c.method, c.reason) == (method, reason)]
        lines.append(f"{method} loses on {', '.join(where)}: {reason}.")
    redrawn = ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in result.unreachable.items() if rate)
    if redrawn:
        lines.append(f"First draws with a cell out of reach, drawn again: {redrawn}.")
    pace = f"{result.env_steps:.3g} steps in {result.seconds:.1f} s"
    lines.append(f"{cells[0].mazes} mazes a row, {pace} ({result.env_steps / result.seconds:.2g}/s).")
    return lines


def _ratio_bounds(result: MazeResult) -> list[str]:
    """What capped runs make of a ratio: a bound where one of the two means is one, nothing where both are."""
    places: dict[str, list[str]] = {}
    for cell in result.cells:
        if cell.ratio is None:
            continue
        capped = result.cell(cell.kind, cell.size, "vanilla").censored > 0, cell.censored > 0
        if any(capped):
            places.setdefault(_RATIO_OF_CAPPED[capped], []).append(f"{cell.method} on {cell.kind} {cell.size}")
    return [f"{meaning}: {', '.join(where)}." for meaning, where in places.items()]
