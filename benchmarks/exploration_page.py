"""`docs/results/exploration.md` from the runs of `benchmarks.exploration`: every number in it is computed here."""

import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.exploration_variants import GRIDS, KEY, MULTI, TV
from mmrs.stats import difference_interval, mean_interval

Row = dict[str, Any]
Groups = dict[tuple[str, str, str], list[Row]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "exploration.md"
SHORT = {KEY: "KeyRooms", MULTI: "MultiRooms", TV: "NoisyTV"} | {grid: grid.split("/")[1] for grid in GRIDS}

HEAD = """# Which form explores

Written by `python -m benchmarks.exploration --table docs/results/exploration.jsonl` from the runs in that file; run it
with `--study main noise key multi tuning minigrid` to repeat them. Seeds are 1000 to 1019 in the room worlds and
2000 to 2004 in MiniGrid; none of them was used to choose anything. Brackets hold 95 % bootstrap intervals over seeds.

- **success**: share of episodes that reached the goal, in the last fifth of training.
- **solved**: seeds whose success is at least 0.95.
- **area**: mean success over the ten tenths of training.
- **first success**: thousands of steps until the goal was first reached; a seed that never did counts as the whole run,
  so the value is then a lower bound. The number in brackets counts the seeds that did.
- **states**: distinct true states per episode, in the last fifth.

The room worlds are trained for 102,400 steps with the preset `rooms`. Unless a row is named otherwise, bonuses without
a weight of their own are centered, divided by their running standard deviation and weighted with 0.03.
"""


def grouped(rows: list[Row]) -> Groups:
    """Rows by study, world and variant, in order of appearance."""
    variants: Groups = defaultdict(list)
    for row in rows:
        variants[row["study"], row["env"], row["cell"]].append(row)
    return variants


def bounds(values: list[float]) -> tuple[float, float]:
    """Ends of the 95 % bootstrap interval of the mean."""
    return mean_interval(np.array(values, float))


def interval(values: list[float], digits: int = 2) -> str:
    """Mean and its bootstrap interval."""
    low, high = bounds(values)
    mean = np.mean(values)
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def difference(a: list[float], b: list[float]) -> str:
    """Difference of two means, with its bootstrap interval; the seeds of both are drawn independently."""
    low, high = difference_interval(np.array(a), np.array(b))
    return f"{np.mean(a) - np.mean(b):.0f} [{low:.0f}, {high:.0f}]"


def firsts(rows: list[Row]) -> list[float]:
    """Thousands of steps to the first success; the whole run where there was none."""
    return [(row["first"] or row["steps"]) / 1000 for row in rows]


def table(variants: Groups, study: str, env: str, also: tuple[str, ...] = ()) -> str:
    """One world's variants, best area first; `also` are variants of the main study for comparison."""
    chosen = {name: rows for (s, e, name), rows in variants.items() if e == env and (s == study or name in also)}
    chosen = dict(sorted(chosen.items(), key=lambda item: -np.mean([row["auc"] for row in item[1]])))
    lines = [
        "| method | seeds | success | solved | area | first success, k | states | s per run |",
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


def verdicts(variants: Groups) -> list[str]:
    """The targets of the study, and the results."""

    def rows(env: str, name: str) -> list[Row]:
        return variants["main", env, name]

    lines = []
    for name in ("mmrs", "landmarks"):
        mine = rows(KEY, name)
        solved = sum(row["success"] >= 0.95 for row in mine)
        lines.append(f"KeyRooms, {name}: success of at least 0.95 in {solved} of {len(mine)} seeds (target: 19 of 20).")
        for other in ("rnd", "re3"):
            theirs = firsts(rows(KEY, other))
            disjoint = bounds(firsts(mine))[1] < bounds(theirs)[0]
            lines.append(
                f"KeyRooms, {name}: first success at {interval(firsts(mine), 0)} thousand steps, {other}'s at "
                f"{interval(theirs, 0)}: intervals {'' if disjoint else 'not '}disjoint, difference "
                f"{difference(firsts(mine), theirs)} (target: before it, disjoint intervals)."
            )
    plain = np.mean([row["success"] for row in rows(KEY, "ppo")])
    lines.append(f"KeyRooms, PPO alone: success {plain:.2f} (target: at most 0.05).")
    mine = [row["success"] for row in rows(MULTI, "mmrs")]
    lines.append(f"MultiRooms, mmrs: success {interval(mine)} (target: at least 0.65).")
    for other in ("rnd", "re3", "ride"):
        theirs = [row["success"] for row in rows(MULTI, other)]
        disjoint = bounds(mine)[0] > bounds(theirs)[1]
        lines.append(
            f"MultiRooms, mmrs against {other}'s {interval(theirs)}: intervals {'' if disjoint else 'not '}disjoint."
        )
    return lines


def write_page(rows: list[Row]) -> str:
    """Write the page; the conclusions below the last heading are kept."""
    variants = grouped(rows)
    parts = [
        HEAD,
        "## Targets and results\n",
        *[textwrap.fill(f"- {line}", 118, subsequent_indent="  ") for line in verdicts(variants)],
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
        if any(s == study and e == env for s, e, _ in variants):
            parts += [f"## {title}\n", table(variants, study, env, also), ""]
    mark = "## What we read from it"
    kept = PAGE.read_text().split(mark)[1] if PAGE.exists() and mark in PAGE.read_text() else "\n"
    PAGE.write_text("\n".join([*parts, mark]) + kept)
    return str(PAGE)
