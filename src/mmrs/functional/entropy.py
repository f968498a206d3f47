"""Estimators of the visitation distribution and its entropy (Eqs. 3, 4, 6, 7 and 19).

Labels are states 0..S-1 in visiting order, ``labels [..., L]`` with L = T + 1 visits of a trajectory of T
steps. Everything is computed in float64; leading axes are batches.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mmrs.errors import InputError


def visit_counts(labels: Tensor, num_states: int) -> Tensor:
    """Number of visits of each state, ``[..., L] -> [..., S]`` int64."""
    _check_labels(labels, num_states)
    counts = torch.zeros(*labels.shape[:-1], num_states, dtype=torch.int64, device=labels.device)
    return counts.scatter_add_(-1, labels.long(), torch.ones_like(labels, dtype=torch.int64))


def empirical_distribution(labels: Tensor, num_states: int) -> Tensor:
    """The share of visits each state received, Eq. (4): ``[..., L] -> [..., S]``, summing to 1."""
    # Deviation: Eq. (4) divides T + 1 visits by T, so it sums to (T + 1)/T; we divide by the visits.
    return visit_counts(labels, num_states).double() / labels.shape[-1]


def discounted_distribution(labels: Tensor, num_states: int, gamma: float) -> Tensor:
    """The discounted visitation distribution, Eq. (6): ``[..., L] -> [..., S]``, summing to 1.

    With γ = 1 it is the empirical distribution, the limit of the formula.
    """
    if not 0.0 < gamma <= 1.0:
        raise InputError(f"gamma must lie in (0, 1], got {gamma}.")
    _check_labels(labels, num_states)
    # Deviation: Eq. (6) weighs with (1 - γ)γ^t/T, of total mass (1 - γ^(T+1))/T instead of 1. We use
    # (1 - γ)/(1 - γ^(T+1)) Σ γ^t 1(S_t = s); its factor is 1/Σ γ^t, which also serves γ = 1.
    weights = gamma ** torch.arange(labels.shape[-1], dtype=torch.float64, device=labels.device)  # [L]
    weights = (weights / weights.sum()).expand(labels.shape)
    mass = torch.zeros(*labels.shape[:-1], num_states, dtype=torch.float64, device=labels.device)
    return mass.scatter_add_(-1, labels.long(), weights)


def shannon_entropy(distribution: Tensor) -> Tensor:
    """H = -Σ d log d in nats, ``[..., S] -> [...]``; 0 log 0 = 0."""
    # Deviation: Eq. (3) integrates over a continuous space while the text counts |S| states; we sum.
    d = distribution.double()
    return -torch.xlogy(d, d).sum(-1)


def plug_in_entropy(counts: Tensor) -> Tensor:
    """Entropy of the empirical distribution of counts, ``[..., S] -> [...]``, Eq. (7); 0 where all are 0.

    It lies below the entropy of the sampled distribution, on average by about (S - 1)/2n after n independent
    visits.
    """
    # Deviation: Eq. (7) averages log d with the true d, which is unknown; the estimate of Eq. (4) stands in.
    c = counts.double()
    return shannon_entropy(c / c.sum(-1, keepdim=True).clamp_min(1.0))


def renyi2_entropy(distribution: Tensor) -> Tensor:
    """The Rényi entropy of order 2, H₂ = -log Σ d², ``[..., S] -> [...]``; J of Eq. (10) is exp(H₂)/S."""
    return -distribution.double().square().sum(-1).log()


def collision_probability(counts: Tensor) -> Tensor:
    """The unbiased estimate Σ c(c - 1) / (n(n - 1)) of Σ d² from n independent visits, ``[..., S] -> [...]``.

    The plug-in Σ(c/n)² counts each visit as a collision with itself, which makes Jain's index too small
    on short records. NaN with fewer than two visits: one visit cannot collide.
    """
    c = counts.double()
    n = c.sum(-1)
    return torch.where(n >= 2, (c * (c - 1)).sum(-1) / (n * (n - 1)), torch.nan)


def knn_entropy(points: Tensor, k: int = 3) -> Tensor:
    """The k-nearest-neighbor estimate of differential entropy in nats, Eq. (19): ``[..., n, d] -> [...]``.

    -inf where a point coincides with k others: the density there is unbounded.
    """
    n, d = points.shape[-2:]
    if not 1 <= k < n:
        raise InputError(f"k must lie between 1 and {n - 1} for {n} points, got {k}.")
    x = points.double()
    # The matrix-product shortcut of cdist cancels badly for close neighbors, which are the ones needed.
    distance = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")  # [..., n, n]
    radius = distance.kthvalue(k + 1, dim=-1).values  # [..., n]; the nearest "neighbor" is the point itself
    # Deviation: Eq. (19) has C_π ≈ 3.14159 without its exponent; the volume of the d-ball needs π^(d/2).
    log_ball = 0.5 * d * math.log(math.pi) - torch.lgamma(x.new_tensor(0.5 * d + 1.0))
    # Deviation: Eq. (19) averages T + 1 points with 1/T; n is the number of points. Its log k terms cancel.
    return math.log(n) + log_ball - torch.digamma(x.new_tensor(float(k))) + d * radius.log().mean(-1)


def _check_labels(labels: Tensor, num_states: int) -> None:
    if labels.shape[-1] == 0:
        raise InputError("A trajectory needs at least one visit: the start counts.")
    if labels.numel() and (int(labels.min()) < 0 or int(labels.max()) >= num_states):
        low, high = int(labels.min()), int(labels.max())
        raise InputError(f"Labels must lie between 0 and {num_states - 1}, got {low} to {high}.")
