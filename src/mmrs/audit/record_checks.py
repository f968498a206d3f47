"""Checks of a run's bonus by its metrics alone, each with what was measured and a remedy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmrs.runs.records import Column, RunRecord

MIN_ROWS = 10
"""Rows below which the course of training cannot be judged."""
REACHED_SHARE = 1e-6
"""Share of the advantages' variance below which the bonus never reached them."""
VANISHED_SHARE = 0.01
"""Share below which the bonus has vanished or is too small."""
DROWNS_SHARE = 0.95
"""Share above which the bonus drowns the reward of the task."""
MAX_GROWTH = 20.0
"""Growth above which the scale of the bonus explodes."""

RECORD_CHECKS = ("reached", "vanished", "drowns", "exploded")
"""Names of the checks that need the metrics alone."""


@dataclass(frozen=True)
class Finding:
    """One check of a run's bonus."""

    name: str
    title: str
    """The fault."""
    healthy: str
    """What holds where the fault is absent."""
    flagged: bool
    measured: str
    """What was measured, or why nothing could be."""
    remedy: str
    """What to do if it is flagged."""
    judged: bool = True
    """False where there is too little to judge by: then it is neither flagged nor healthy."""


def audit_record(run: RunRecord) -> list[Finding]:
    """Every check that needs the metrics alone; none for a run without a bonus."""
    share = run.columns.get("bonus_advantage_share", np.zeros(0))
    share = share[~np.isnan(share)]
    if run.method == "ppo" or not len(share):
        return []
    reached = _reached(share)
    if reached.flagged:
        return [reached]  # the other checks need a bonus that is there
    return [reached, _vanished(share), _drowns(run), _exploded(run)]


def _reached(share: Column) -> Finding:
    highest = float(share.max())
    return Finding(
        "reached",
        "the bonus never reached the advantages",
        "the bonus reaches the advantages",
        highest < REACHED_SHARE,
        f"highest share of the advantages' variance: {highest:.2g}",
        "Look at bonus.weight and bonus.final_weight, and at whether the bonus is added before the returns are "
        "computed; a bonus that is 0 or the same at every step of endless episodes does not reach them either.",
    )


def _vanished(share: Column) -> Finding:
    half = len(share) // 2
    early, late = float(share[: max(1, half)].mean()), float(share[half:].mean())
    return Finding(
        "vanished",
        "the bonus has vanished" if early >= VANISHED_SHARE else "the bonus is too small to matter",
        "the bonus is large enough to matter",
        len(share) >= MIN_ROWS and late < VANISHED_SHARE,
        _with_row_count(
            share, f"mean share of the advantages' variance: {early:.2%} over the first half, {late:.2%} over the last"
        ),
        "Raise bonus.weight, or scale by the running standard deviation (--bonus.scale return) so that the weight "
        "keeps its meaning. A bonus that fell because all states are known has done its work.",
        judged=len(share) >= MIN_ROWS,
    )


def _drowns(run: RunRecord) -> Finding:
    share, task = run.columns["bonus_advantage_share"], run.columns.get("reward/extrinsic_share", np.zeros(0))
    there = len(task) == len(share)
    paid = (task > 0) & ~np.isnan(share) if there else np.zeros(len(share), bool)
    paid[: len(share) // 2] = False
    late = float(share[paid].mean()) if paid.any() else 0.0
    measured = f"mean share over the last half, where the task gave any reward: {late:.1%}" if paid.any() else (
        "the task gave no reward over the last half: there is none to drown")  # fmt: skip
    return Finding(
        "drowns",
        "the bonus drowns the task's reward",
        "the bonus leaves room for the task's reward",
        len(share) >= MIN_ROWS and late > DROWNS_SHARE,
        _with_row_count(share, measured),
        "Lower bonus.weight, let it fall over the run (--bonus.final-weight 0), or give the bonus a value of its own "
        "(--mixing.mode two_heads).",
        judged=len(share) >= MIN_ROWS and bool(paid.any()),
    )


def _exploded(run: RunRecord) -> Finding:
    size = bonus_size(run)
    tenth = max(1, len(size) // 10)
    early = float(np.median(size[tenth : 3 * tenth])) if len(size) >= MIN_ROWS else 0.0
    growth = float(np.median(size[-tenth:])) / early if early > 0 else 0.0
    measured = f"size over the last tenth: {growth:.3g} times that of the start" if early > 0 else (
        "there is no size near the start to compare with")  # fmt: skip
    return Finding(
        "exploded",
        "the scale of the bonus explodes",
        "the scale of the bonus stays in bounds",
        growth > MAX_GROWTH,
        _with_row_count(size, measured),
        "Divide by the running standard deviation (--bonus.scale return), lower the bonus' learning rate, or look for "
        "inputs without bounds.",
        judged=early > 0,
    )


def _with_row_count(values: Column, measured: str) -> str:
    short = f"; only {len(values)} rows, too few to judge" if len(values) < MIN_ROWS else ""
    return measured + short


def bonus_terms(run: RunRecord) -> list[str]:
    """Metric names of the bonus' terms."""
    stds = [n for n in run.columns if n.startswith("reward/") and n.endswith("_std")]
    return [name.removesuffix("_std") for name in stds if name != "reward/extrinsic_std"]


def bonus_size(run: RunRecord) -> Column:
    """Sum over the bonus' terms of the root mean square, per row."""
    squares = [np.hypot(run.columns[term], run.columns[f"{term}_std"]) for term in bonus_terms(run)]
    return np.sum(squares, axis=0) if squares else np.zeros(len(run.columns["step"]))
