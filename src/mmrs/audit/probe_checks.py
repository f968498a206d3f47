"""Is the bonus doing its job? What a probe of the trained bonus tells, each check with its figure and its remedy."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.audit.probe import Probe
from mmrs.audit.record_checks import Finding

EXPLAINED = 0.05
CORRELATED = 0.1
SPIKE = 8.0
FEWEST_ENDS = 5
AS_MUCH = 0.9


def audit_probe(seen: Probe) -> list[Finding]:
    """Every check that needs the trained bonus."""
    constant = _constant(seen)
    rest = [] if constant.flagged else [_noise(seen), _spikes(seen)]
    return [constant, *rest, _standing_still(seen)]


def _constant(seen: Probe) -> Finding:
    spread, size = float(seen.paid.std()), float(seen.paid.abs().max())
    return Finding(
        "constant",
        "the bonus is constant",
        spread <= 1e-6 * size or size == 0,
        f"spread {spread:.3g} at a size of up to {size:.3g}",
        "It tells no state from another: look at what the reward is given (are observations all the same?) and at "
        "whether its network still learns.",
    )


def _noise(seen: Probe) -> Finding:
    """Ranks rather than values, so that a few large payments do not decide."""
    ranks = _ranks(seen.paid)
    explained = max(explained_by(codes, ranks) for codes in (seen.before, seen.after))
    often = torch.bincount(seen.after.flatten())[seen.after]
    correlation = max((correlation_of(ranks, _ranks(count.double())) for count in (seen.visits, often)), key=abs)
    return Finding(
        "noise",
        "the bonus is noise",
        explained < EXPLAINED and abs(correlation) < CORRELATED,
        f"share of it that the state explains: {max(explained, 0.0):.1%}; rank correlation with visits of the state: "
        f"{correlation:+.2f}",
        "It pays neither for certain states nor for rare ones: look for randomness in the reward, for features that "
        "mean nothing, or for a noisy part of the observation that hides the rest.",
    )


def _spikes(seen: Probe) -> Finding:
    ends = int(seen.done.sum())
    away = (seen.paid - seen.paid.median()).abs()
    usual = float(away[~seen.done].mean()) if ends < seen.done.numel() else 0.0
    ratio = float(away[seen.done].mean()) / usual if ends and usual > 0 else float("inf") if ends else 0.0
    if ends and usual == 0.0 and float(away[seen.done].mean()) == 0.0:
        ratio = 0.0
    few = f"; only {ends} episodes ended, too few to judge" if ends < FEWEST_ENDS else ""
    return Finding(
        "spikes",
        "the bonus spikes at episode ends",
        ends >= FEWEST_ENDS and ratio > SPIKE,
        f"deviation from its median at ends: {ratio:.3g} times that of other steps{few}",
        "The successor of a last step must be the true last state and not the first of the next episode (final_obs); "
        "or the end itself is paid for: give potentials the value they had.",
    )


def _standing_still(seen: Probe) -> Finding:
    floor = 1e-3 * float(seen.paid.std())
    return Finding(
        "standing",
        "the bonus pays for standing still",
        seen.still > floor and seen.still >= AS_MUCH * seen.moving,
        f"a step that sees one state for ever earns {seen.still:.3g}, one of the trained policy {seen.moving:.3g}",
        "What is seen again and again should pay less and less: use a bonus that counts or learns, raise its learning "
        "rate, or discount by visits in the episode.",
    )


# --- numbers ----------------------------------------------------------------------------------------------------------


def _ranks(values: Tensor) -> Tensor:
    """Ranks of all values, ties sharing their mean."""
    _, where, counts = torch.unique(values.flatten(), return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    ranks: Tensor = last - (counts - 1) / 2.0
    return ranks[where].view(values.shape)


def explained_by(codes: Tensor, values: Tensor) -> float:
    """Share of the values' variance between groups of equal code, corrected for the number of groups (adjusted R²)."""
    codes, values = codes.flatten(), values.flatten()
    _, group = torch.unique(codes, return_inverse=True)
    counts = torch.bincount(group).double()
    sums = torch.zeros_like(counts).scatter_add_(0, group, values)
    within = (values - (sums / counts)[group]).square().sum()
    total = (values - values.mean()).square().sum()
    left = len(values) - len(counts)
    if left <= 0 or total == 0:
        return 0.0
    return float(1.0 - (within / left) / (total / (len(values) - 1)))


def correlation_of(x: Tensor, y: Tensor) -> float:
    """Pearson's correlation; 0 where one of the two does not vary."""
    x, y = (v.flatten() - v.mean() for v in (x, y))
    size = x.norm() * y.norm()
    return float(x @ y / size) if size > 0 else 0.0
