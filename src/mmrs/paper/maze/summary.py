"""Statistics of steps to coverage: means, ratios to vanilla, and their bootstrap intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmrs.paper.maze.options import METHODS, WalkOptions
from mmrs.paper.maze.results import MazeRow
from mmrs.paper.maze.text import why_slower
from mmrs.stats import mean_interval, ratio_interval


def summarize(
    kind: str,
    size: int,
    options: WalkOptions,
    steps: NDArray[np.int64],
    covered: NDArray[np.int64],
    baseline: NDArray[np.int64],
) -> MazeRow:
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
    return MazeRow(
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
