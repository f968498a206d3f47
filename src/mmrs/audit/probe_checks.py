"""Checks of the trained bonus by its probe, each with what was measured and a remedy."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.audit.probe import Probe
from mmrs.audit.record_checks import Finding

MIN_EXPLAINED = 0.05
"""Share of the bonus that the state explains, below which it may be noise."""
MIN_CORRELATION = 0.1
"""Rank correlation with visits, below which it may be noise."""
MAX_SPIKE = 8.0
"""Deviation at episode ends relative to other steps, above which the bonus spikes there."""
MIN_ENDS = 5
"""Episode ends below which spikes cannot be judged."""
STILL_SHARE = 0.9
"""Bonus of standing still relative to moving, from which it rewards standing still."""


def audit_probe(probe: Probe) -> list[Finding]:
    """Every check that needs the trained bonus."""
    constant = _constant(probe)
    rest = [] if constant.flagged else [_noise(probe), _spikes(probe)]
    return [constant, *rest, _standing_still(probe)]


def _constant(probe: Probe) -> Finding:
    std, size = float(probe.bonus.std()), float(probe.bonus.abs().max())
    return Finding(
        "constant",
        "the bonus is constant",
        "the bonus varies",
        std <= 1e-6 * size or size == 0,
        f"standard deviation {std:.3g}, largest size {size:.3g}",
        "It does not distinguish states: look at the observations that the reward gets (are they all the same?) and at "
        "whether its network still learns.",
    )


def _noise(probe: Probe) -> Finding:
    """By ranks instead of values, so that a few large values do not decide."""
    ranks = _ranks(probe.bonus)
    explained = max(explained_by(codes, ranks) for codes in (probe.state, probe.next_state))
    total_visits = torch.bincount(probe.next_state.flatten())[probe.next_state]
    correlations = [correlation_of(ranks, _ranks(count.double())) for count in (probe.visits, total_visits)]
    correlation = max(correlations, key=abs)
    return Finding(
        "noise",
        "the bonus is noise",
        "the bonus depends on the state or its visits",
        explained < MIN_EXPLAINED and abs(correlation) < MIN_CORRELATION,
        f"share that the state explains: {max(explained, 0.0):.1%}; rank correlation with visits of the state: "
        f"{correlation:+.2f}",
        "It rewards neither certain states nor rare ones: look for randomness in the reward, for features without "
        "meaning, or for a noisy part of the observation that hides the rest.",
    )


def _spikes(probe: Probe) -> Finding:
    ends = int(probe.done.sum())
    away = (probe.bonus - probe.bonus.median()).abs()
    usual = float(away[~probe.done].mean()) if ends < probe.done.numel() else 0.0
    ratio = float(away[probe.done].mean()) / usual if ends and usual > 0 else float("inf") if ends else 0.0
    if ends and usual == 0.0 and float(away[probe.done].mean()) == 0.0:
        ratio = 0.0
    few = f"; only {ends} episodes ended, too few to judge" if ends < MIN_ENDS else ""
    return Finding(
        "spikes",
        "the bonus spikes at episode ends",
        "the bonus of episode ends is like that of other steps",
        ends >= MIN_ENDS and ratio > MAX_SPIKE,
        f"deviation from the median at ends: {ratio:.3g} times that of other steps{few}",
        "The successor of a last step must be the true last state and not the first of the next episode (final_obs); "
        "or the end itself is rewarded: keep the value of potentials there.",
        judged=ends >= MIN_ENDS,
    )


def _standing_still(probe: Probe) -> Finding:
    floor = 1e-3 * float(probe.bonus.std())
    return Finding(
        "standing",
        "the bonus rewards standing still",
        "the bonus does not reward standing still",
        probe.still > floor and probe.still >= STILL_SHARE * probe.moving,
        f"mean bonus of staying in one state: {probe.still:.3g}; of the trained policy: {probe.moving:.3g}",
        "The bonus of a state should fall when it is visited again and again: use a bonus that counts or learns, raise "
        "its learning rate, or discount by visits in the episode.",
    )


# --- statistics -----------------------------------------------------------------------------------------------------


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
