"""Is the bonus doing its job? What a run's record alone can tell, each check with its figure and its remedy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmrs.runs.records import Column, RunRecord

FEWEST_ROWS = 10
"""Rows below which a record says too little of a course over training."""
REACHED = 1e-6
VANISHED = 0.01
DROWNS = 0.95
EXPLODED = 20.0


RECORD_CHECKS = ("reached", "vanished", "drowns", "exploded")
"""Names of the checks that the record alone decides."""


@dataclass(frozen=True)
class Finding:
    """One check of a run's bonus."""

    name: str
    title: str
    flagged: bool
    figure: str
    """What was measured, or why nothing could be."""
    remedy: str
    """What to do where it is flagged."""


def audit_record(run: RunRecord) -> list[Finding]:
    """Every check that needs the record alone; none for a run without a bonus."""
    share = run.columns.get("bonus_advantage_share", np.zeros(0))
    share = share[~np.isnan(share)]
    if run.method == "ppo" or not len(share):
        return []
    reached = _reached(share)
    if reached.flagged:
        return [reached]  # of a bonus that is not there nothing else can be asked
    return [reached, _vanished(share), _drowns(run), _exploded(run)]


def _reached(share: Column) -> Finding:
    highest = float(share.max())
    return Finding(
        "reached",
        "the bonus never reached the advantages",
        highest < REACHED,
        f"highest share of the advantages' variance: {highest:.2g}",
        "Look at bonus.weight and bonus.final_weight, and at whether the bonus is added before the returns are "
        "computed; a bonus that is 0 or the same at every step of endless episodes does not reach them either.",
    )


def _vanished(share: Column) -> Finding:
    half = len(share) // 2
    early, late = float(share[: max(1, half)].mean()), float(share[half:].mean())
    return Finding(
        "vanished",
        "the bonus has vanished" if early >= VANISHED else "the bonus is too small to matter",
        len(share) >= FEWEST_ROWS and late < VANISHED,
        _told(
            share, f"mean share of the advantages' variance: {early:.2%} over the first half, {late:.2%} over the last"
        ),
        "Raise bonus.weight, or scale by the running spread (--bonus.scale return) so that the weight keeps its "
        "meaning; where the bonus fell because all is known, it has done its work.",
    )


def _drowns(run: RunRecord) -> Finding:
    share, task = run.columns["bonus_advantage_share"], run.columns.get("reward/extrinsic_share", np.zeros(0))
    there = len(task) == len(share)
    paid = (task > 0) & ~np.isnan(share) if there else np.zeros(len(share), bool)
    paid[: len(share) // 2] = False
    late = float(share[paid].mean()) if paid.any() else 0.0
    said = f"mean share over the last half, where the task paid at all: {late:.1%}" if paid.any() else (
        "the task paid nothing over the last half: there is no reward to drown")  # fmt: skip
    return Finding(
        "drowns",
        "the bonus drowns the task's reward",
        len(share) >= FEWEST_ROWS and late > DROWNS,
        _told(share, said),
        "Lower bonus.weight, let it fall over the run (--bonus.final-weight 0), or give the bonus a value of its own "
        "(--mixing.mode two_heads).",
    )


def _exploded(run: RunRecord) -> Finding:
    size = bonus_size(run)
    tenth = max(1, len(size) // 10)
    early = float(np.median(size[tenth : 3 * tenth])) if len(size) >= FEWEST_ROWS else 0.0
    growth = float(np.median(size[-tenth:])) / early if early > 0 else 0.0
    said = f"size over the last tenth: {growth:.3g} times that of the start" if early > 0 else (
        "there is no size near the start to compare with")  # fmt: skip
    return Finding(
        "exploded",
        "the scale of the bonus explodes",
        growth > EXPLODED,
        _told(size, said),
        "Divide by the running spread (--bonus.scale return), lower the bonus' learning rate, or look for inputs "
        "without bounds.",
    )


def _told(values: Column, figure: str) -> str:
    short = f"; only {len(values)} rows, too few to judge" if len(values) < FEWEST_ROWS else ""
    return figure + short


def bonus_terms(run: RunRecord) -> list[str]:
    """Names in the record of the bonus' terms."""
    stds = [n for n in run.columns if n.startswith("reward/") and n.endswith("_std")]
    return [name.removesuffix("_std") for name in stds if name != "reward/extrinsic_std"]


def bonus_size(run: RunRecord) -> Column:
    """Root mean square of the bonus' terms at each row, added up."""
    squares = [np.hypot(run.columns[term], run.columns[f"{term}_std"]) for term in bonus_terms(run)]
    return np.sum(squares, axis=0) if squares else np.zeros(len(run.columns["step"]))
