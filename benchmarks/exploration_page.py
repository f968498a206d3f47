"""`docs/results/exploration.md` from the runs of `benchmarks.exploration`: every figure in it is computed here."""

import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.exploration_cells import GRIDS, KEY, MULTI, TV
from mmrs.paper.maze.summary import mean_interval

Row = dict[str, Any]
Cells = dict[tuple[str, str, str], list[Row]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "exploration.md"
SHORT = {KEY: "KeyRooms", MULTI: "MultiRooms", TV: "NoisyTV"} | {grid: grid.split("/")[1] for grid in GRIDS}

HEAD = """# Which form explores

Written by `python -m benchmarks.exploration --table docs/results/exploration.jsonl` from the runs in that file; run it
with `--study main noise key multi tuning minigrid` to have them again. Seeds are 1000 to 1019 in the room worlds and
2000 to 2004 in MiniGrid; none of them was used to choose anything. Brackets hold 95 % bootstrap intervals over seeds.

- **success**: share of episodes that reached the goal, in the last fifth of training.
- **solved**: seeds whose success is at least 0.95.
- **area**: mean success over the ten tenths of training.
- **first success**: thousands of steps until the goal was first reached; a seed that never did counts as the whole run,
  so the figure is then a lower bound. In brackets behind it the seeds that did.
- **states**: distinct true states an episode, in the last fifth.

The room worlds are trained for 102,400 steps with the preset `rooms`. Unless a row says otherwise, bonuses that carry
no weight of their own are centred, divided by their running spread and weighted with 0.03.
"""


def grouped(rows: list[Row]) -> Cells:
    """Rows by study, world and cell, in order of appearance."""
    cells: Cells = defaultdict(list)
    for row in rows:
        cells[row["study"], row["env"], row["cell"]].append(row)
    return cells


def bounds(values: list[float]) -> tuple[float, float]:
    """Of the 95 % bootstrap interval of the mean."""
    return mean_interval(np.array(values, float))


def interval(values: list[float], digits: int = 2) -> str:
    """Mean and its bootstrap interval."""
    low, high = bounds(values)
    mean = np.mean(values)
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def difference(a: list[float], b: list[float]) -> str:
    """Of two means, with its bootstrap interval; the seeds of both are drawn independently."""
    random = np.random.default_rng(1)
    draws = [np.array(v)[random.integers(0, len(v), (10_000, len(v)))].mean(1) for v in (a, b)]
    low, high = np.percentile(draws[0] - draws[1], [2.5, 97.5])
    return f"{np.mean(a) - np.mean(b):.0f} [{low:.0f}, {high:.0f}]"


def firsts(rows: list[Row]) -> list[float]:
    """Thousands of steps to the first success; the whole run where there was none."""
    return [(row["first"] or row["steps"]) / 1000 for row in rows]


def table(cells: Cells, study: str, env: str, also: tuple[str, ...] = ()) -> str:
    """One world's cells, best area first; `also` are cells of the main study for comparison."""
    chosen = {name: rows for (s, e, name), rows in cells.items() if e == env and (s == study or name in also)}
    chosen = dict(sorted(chosen.items(), key=lambda item: -np.mean([row["auc"] for row in item[1]])))
    lines = [
        "| method | seeds | success | solved | area | first success, k | states | s a run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in chosen.items():
        column = {key: [row[key] for row in rows] for key in ("success", "auc", "states", "seconds")}
        solved = sum(value >= 0.95 for value in column["success"])
        reached = sum(row["first"] is not None for row in rows)
        states = f"{np.mean(column['states']):.0f}" if column["states"][0] is not None else ""
        lines.append(
            f"| {name} | {len(rows)} | {interval(column['success'])} | {solved} | {interval(column['auc'])} "
            f"| {interval(firsts(rows), 0)} ({reached}) | {states} | {np.mean(column['seconds']):.0f} |"
        )
    return "\n".join(lines)


def verdicts(cells: Cells) -> list[str]:
    """What was asked of the methods, and what came out."""

    def rows(env: str, name: str) -> list[Row]:
        return cells["main", env, name]

    said = []
    for name in ("mmrs", "landmarks"):
        mine = rows(KEY, name)
        solved = sum(row["success"] >= 0.95 for row in mine)
        said.append(f"KeyRooms, {name}: success of at least 0.95 in {solved} of {len(mine)} seeds (asked: 19 of 20).")
        for other in ("rnd", "re3"):
            theirs = firsts(rows(KEY, other))
            apart = bounds(firsts(mine))[1] < bounds(theirs)[0]
            said.append(
                f"KeyRooms, {name}: first success at {interval(firsts(mine), 0)} thousand steps, {other}'s at "
                f"{interval(theirs, 0)}: intervals {'' if apart else 'not '}apart, difference "
                f"{difference(firsts(mine), theirs)} (asked: before it, intervals apart)."
            )
    plain = np.mean([row["success"] for row in rows(KEY, "ppo")])
    said.append(f"KeyRooms, PPO alone: success {plain:.2f} (asked: at most 0.05).")
    mine = [row["success"] for row in rows(MULTI, "mmrs")]
    said.append(f"MultiRooms, mmrs: success {interval(mine)} (asked: at least 0.65).")
    for other in ("rnd", "re3", "ride"):
        theirs = [row["success"] for row in rows(MULTI, other)]
        apart = bounds(mine)[0] > bounds(theirs)[1]
        said.append(f"MultiRooms, mmrs against {other}'s {interval(theirs)}: intervals {'' if apart else 'not '}apart.")
    return said


def write_page(rows: list[Row]) -> str:
    """Write the page; what a person concludes from it is kept below the line that says so."""
    cells = grouped(rows)
    parts = [
        HEAD,
        "## What was asked, and what came out\n",
        *[textwrap.fill(f"- {line}", 118, subsequent_indent="  ") for line in verdicts(cells)],
        "",
    ]
    sections = [
        ("KeyRooms: one map, a key, a door", "main", KEY, ()),
        ("MultiRooms: a new map every episode (landmarks without their life-long weight)", "main", MULTI, ()),
        ("One change at a time: KeyRooms", "ablation", KEY, ("mmrs", "landmarks", "rnd", "re3")),
        ("One change at a time: MultiRooms", "ablation", MULTI, ("mmrs", "landmarks", "rnd")),
        ("NoisyTV: before and after the remedy", "noise", TV, ()),
        *((f"MiniGrid {SHORT[env]}, at the weights chosen below", "minigrid", env, ()) for env in GRIDS),
        *((f"Tuning: {SHORT[env]}, another seed, fewer steps", "tuning", env, ()) for env in GRIDS),
    ]
    for title, study, env, also in sections:
        if any(s == study and e == env for s, e, _ in cells):
            parts += [f"## {title}\n", table(cells, study, env, also), ""]
    mark = "## What we read from it"
    kept = PAGE.read_text().split(mark)[1] if PAGE.exists() and mark in PAGE.read_text() else "\n"
    PAGE.write_text("\n".join(parts) + mark + kept)
    return str(PAGE)
