"""Bootstrap intervals of steps to coverage, and why a method loses where it does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmrs.paper.maze.options import METHODS, WalkOptions, discount_outweighs_gain, pays_for_new_cells
from mmrs.paper.maze.results import MazeCell
from mmrs.paper.maze.text import LOCK_IN
from mmrs.stats import mean_interval, ratio_interval


def summarise(
    kind: str,
    size: int,
    options: WalkOptions,
    steps: NDArray[np.int64],
    covered: NDArray[np.int64],
    baseline: NDArray[np.int64],
) -> MazeCell:
    """One row of the table; `baseline` holds vanilla's steps on the same mazes."""
    method = METHODS[options.method]
    mean_low, mean_high = mean_interval(steps)
    ratio = ratio_low = ratio_high = wins = None
    verdict = "baseline"
    if method != "vanilla":
        ratio = float(baseline.mean() / steps.mean())
        ratio_low, ratio_high = ratio_interval(baseline, steps)
        wins = float((steps < baseline).mean())
        verdict = "faster" if ratio_low > 1 else "slower" if ratio_high < 1 else "undecided"
    return MazeCell(
        kind=kind,
        size=size,
        method=method,
        mazes=len(steps),
        mean=float(steps.mean()),
        mean_low=mean_low,
        mean_high=mean_high,
        median=float(np.median(steps)),
        censored=int((covered < size * size).sum()),
        covered=float(covered.mean() / (size * size)),
        cap=options.step_cap,
        ratio=ratio,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        wins=wins,
        verdict=verdict,
        reason=why_slower(size, options) if verdict == "slower" else "",
        steps=tuple(steps.tolist()),
    )


def why_slower(size: int, options: WalkOptions) -> str:
    """What is known to make a method lose, in one sentence."""
    if METHODS[options.method] == "random_walk":
        return "a random walk learns nothing from where it has been"
    if pays_for_new_cells(options):
        return (
            f"weight {options.weight:g} is above the step cost {options.step_cost:g}: a new cell pays a "
            "positive reward once, Q remembers it, and the agent walks the same path again"
        )
    if discount_outweighs_gain(options, size * size):
        return (
            f"gamma_g {options.gamma_g:g} < 1 adds a cost that grows with J; here 1 - gamma_g exceeds 1/S, "
            "the most a step can raise J, so cells seen early look better than fresh ones"
        )
    if options.goal_ends and options.goal_reward > 0:
        return LOCK_IN
    return "this bonus, at this weight, is too weak or too strong for mazes of this size; only tuning helps"
