"""The table of the maze experiment on a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from mmrs.paper.maze.results import MazeResult, MazeRow
from mmrs.runs.console import print_untruncated

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
    """Print the table, then notes on capped runs, on redrawn mazes, and on why a method lost."""
    title = _TITLES[result.protocol]
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    headings = ["maze", "method", "mean [95 %]", "median", "capped", "ratio [95 %]", ""]
    rows = [_row_text(row) for row in result.rows]
    if any(row.censored for row in result.rows):
        headings.insert(5, "seen %")
        for texts, row in zip(rows, result.rows, strict=True):
            texts.insert(5, f"{100 * row.covered:.1f}")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("maze", "method") else "right")
    for texts, row in zip(rows, result.rows, strict=True):
        table.add_row(*texts, end_section=row.method == result.rows[-1].method)
    print_untruncated(table, console)
    for line in notes(result):
        console.print(line, highlight=False, soft_wrap=True)


def _row_text(row: MazeRow) -> list[str]:
    bound = ">" if row.censored else ""  # a capped run enters at the cap: the mean is a lower bound
    mean = f"{bound}{row.mean:.0f} [{row.mean_low:.0f}, {row.mean_high:.0f}]"
    ratio = ""
    if row.ratio is not None:
        ratio = f"{row.ratio:.2f} [{row.ratio_low:.2f}, {row.ratio_high:.2f}]"
    name, mark = f"{row.kind} {row.size}", _MARKS[row.verdict]
    return [name, row.method, mean, f"{row.median:.0f}", str(row.censored), ratio, mark]


def notes(result: MazeResult) -> list[str]:
    """The sentences below the table."""
    rows = result.rows
    lines = ["ratio: mean of vanilla / mean of the method on the same mazes; ▲ faster, ▼ slower, = undecided."]
    if any(row.censored for row in rows):
        lines.append("> some runs hit the step cap and enter the mean at the cap: it is a lower bound.")
        lines += _ratio_bounds(result)
    for method, reason in dict.fromkeys((r.method, r.reason) for r in rows if r.verdict == "slower"):
        where = [f"{r.kind} {r.size}" for r in rows if (r.method, r.reason) == (method, reason)]
        lines.append(f"{method} loses on {', '.join(where)}: {reason}.")
    redrawn = ", ".join(f"{name} {100 * rate:.1f} %" for name, rate in result.unreachable.items() if rate)
    if redrawn:
        lines.append(f"Mazes drawn again because a cell could not be reached: {redrawn}.")
    pace = f"{result.env_steps:.3g} steps in {result.seconds:.1f} s"
    lines.append(f"{rows[0].mazes} mazes per row, {pace} ({result.env_steps / result.seconds:.2g}/s).")
    return lines


def _ratio_bounds(result: MazeResult) -> list[str]:
    """Notes on ratios with capped runs: a bound where one of the two means is a bound, no bound where both are."""
    affected: dict[str, list[str]] = {}
    for row in result.rows:
        if row.ratio is None:
            continue
        capped = result.row(row.kind, row.size, "vanilla").censored > 0, row.censored > 0
        if any(capped):
            affected.setdefault(_RATIO_OF_CAPPED[capped], []).append(f"{row.method} on {row.kind} {row.size}")
    return [f"{meaning}: {', '.join(where)}." for meaning, where in affected.items()]
