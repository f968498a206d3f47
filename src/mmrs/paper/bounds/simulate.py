"""Simulations for `mmrs bounds`: errors of estimates from n visits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mmrs.errors import InputError, did_you_mean

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DISTRIBUTIONS = ("uniform", "zipf", "spike")


@dataclass(frozen=True)
class EstimateErrors:
    """Errors of the estimates from n visits, over many runs; entropies are in nats."""

    source: str
    """`iid uniform`, `iid zipf`, `iid spike`, `walk perfect` or `walk plus`."""
    states: int
    """S."""
    samples: int
    """n: visits counted."""
    runs: int
    """Number of records of n visits."""
    l1_quantile: float
    """The (1 - δ) quantile of the L1 error of the empirical distribution."""
    l1_bound: float
    """Lemma 1 with c = 1, Eq. (5)."""
    l1_constant: float
    """The smallest c with which the lemma holds here."""
    l1_violations: float
    """Share of runs whose L1 error exceeds the bound with c = 1."""
    l1_corrected: float
    """The bound of McDiarmid's inequality for independent visits, see `corrected_l1`."""
    l1_corrected_violations: float
    """Share of runs that exceed it."""
    entropy: float
    """True entropy (mean over mazes for walks)."""
    entropy_bias: float
    """Mean error of the plug-in entropy."""
    entropy_bias_formula: float
    """-(S - 1)/2n, its first-order size for independent visits."""
    entropy_quantile: float
    """The (1 - δ) quantile of the plug-in's absolute error."""
    entropy_bound: float
    """Lemma 2, Eq. (8)."""
    entropy_violations: float
    """Share of runs that exceed it."""
    entropy_corrected: float
    """Corrected bound for independent visits, with bias and fluctuation, see `corrected_entropy`."""
    entropy_corrected_violations: float
    """Share of runs that exceed it."""
    entropy_error: float
    """Root mean squared error of the plug-in entropy, relative to the entropy."""
    jain: float
    """True Jain index 1/(S Σd²)."""
    jain_mean: float
    """Mean of the index of the counts, Eq. (10)."""
    jain_formula: float
    """1/(S (Σd² + (1 - Σd²)/n)), its expectation for independent visits to first order."""
    jain_error: float
    """Root mean squared error of the index, relative to the truth."""
    collision_error: float
    """Root mean squared error of Σc(c - 1)/(n(n - 1)), relative to Σd²."""


def distribution(name: str, states: int) -> Floats:
    """A distribution over `states` states: `uniform`, `zipf` (∝ 1/rank) or `spike` (0.9 on one state)."""
    if name == "uniform":
        return np.full(states, 1.0 / states)
    if name == "zipf":
        weights = 1.0 / np.arange(1, states + 1)
        return np.asarray(weights / weights.sum(), np.float64)
    if name == "spike":
        return np.concatenate([[0.9], np.full(states - 1, 0.1 / (states - 1))])
    raise InputError(f"Unknown distribution {name!r}. {did_you_mean(name, DISTRIBUTIONS)}")


def plug_in(counts: Ints) -> Floats:
    """Plug-in entropy of each row of counts ``[R, S] -> [R]``, Eq. (7)."""
    n = counts.sum(-1)
    # One logarithm per possible count instead of per entry: there are many entries, and counts are small.
    table = np.arange(int(counts.max()) + 1, dtype=np.float64)
    table[2:] *= np.log(table[2:])
    table[1:2] = 0.0
    return np.asarray(np.log(n) - table[counts].sum(-1) / n, np.float64)


def measure(source: str, counts: Ints, law: Floats, delta: float) -> EstimateErrors:
    """Compare counts of visits ``[R, S]`` with the distribution they were drawn from, ``[S]`` or ``[R, S]``."""
    runs, states = counts.shape
    n = int(counts[0].sum())
    l1 = np.abs(counts / n - law).sum(-1)
    l1_bound = math.sqrt(states * math.log(1 / delta) / n)  # Eq. (5), c = 1
    truth = -np.sum(law * np.log(law), -1)
    error = plug_in(counts) - truth
    h_bound = math.log(states) * math.sqrt(math.log(2 / delta) / (2 * n))  # Eq. (8)
    squares = np.sum(law * law, -1)
    plain = np.einsum("rs,rs->r", counts, counts).astype(np.float64)
    index, unbiased = n * n / (states * plain), (plain - n) / (n * (n - 1.0))  # Eq. (10); collisions
    l1_quantile = float(np.quantile(l1, 1 - delta))
    l1_corrected, h_corrected = corrected_l1(states, n, delta), corrected_entropy(states, n, delta)
    return EstimateErrors(
        source=source,
        states=states,
        samples=n,
        runs=runs,
        l1_quantile=l1_quantile,
        l1_bound=l1_bound,
        l1_constant=l1_quantile / l1_bound,
        l1_violations=float(np.mean(l1 > l1_bound)),
        l1_corrected=l1_corrected,
        l1_corrected_violations=float(np.mean(l1 > l1_corrected)),
        entropy=float(np.mean(truth)),
        entropy_bias=float(error.mean()),
        entropy_bias_formula=-(states - 1) / (2 * n),
        entropy_quantile=float(np.quantile(np.abs(error), 1 - delta)),
        entropy_bound=h_bound,
        entropy_violations=float(np.mean(np.abs(error) > h_bound)),
        entropy_corrected=h_corrected,
        entropy_corrected_violations=float(np.mean(np.abs(error) > h_corrected)),
        entropy_error=_relative_error(error / truth),
        jain=float(np.mean(1 / (states * squares))),
        jain_mean=float(index.mean()),
        jain_formula=float(np.mean(1 / (states * (squares + (1 - squares) / n)))),
        jain_error=_relative_error(index * states * squares - 1),
        collision_error=_relative_error(unbiased / squares - 1),
    )


def required_constant(counts: Ints, law: Floats, deltas: Sequence[float]) -> list[float]:
    """The smallest c of Lemma 1 for each δ, from the same counts."""
    n, states = int(counts[0].sum()), counts.shape[1]
    l1 = np.abs(counts / n - law).sum(-1)
    return [float(np.quantile(l1, 1 - d) / math.sqrt(states * math.log(1 / d) / n)) for d in deltas]


def corrected_l1(states: int, samples: int, delta: float) -> float:
    """Lemma 1, corrected: √((S - 1)/n) + √(2 log(1/δ)/n) for n independent visits.

    The first term bounds the mean (Cauchy-Schwarz), the second the excess (McDiarmid: one visit moves the L1 error
    by 2/n at most).
    """
    # Deviation: the proof multiplies both terms by √S; only the mean grows with the state space.
    return math.sqrt((states - 1) / samples) + math.sqrt(2 * math.log(1 / delta) / samples)


def corrected_entropy(states: int, samples: int, delta: float) -> float:
    """Lemma 2, corrected for the plug-in: log(1 + (S - 1)/n) + log n √(2 log(2/δ)/n) for n independent visits.

    The first term bounds the bias, the second the fluctuation (one visit moves the estimate by 2 log(n)/n at most).
    """
    # Deviation: Eq. (8) has no term for the bias and takes log S for the range of -log d.
    bias = math.log1p((states - 1) / samples)
    return bias + math.log(samples) * math.sqrt(2 * math.log(2 / delta) / samples)


def proof_constant(delta: float) -> float:
    """The c(δ) of the proof of Lemma 1 for independent visits: (1 + √log(1/δ)) / √log(1/δ)."""
    root = math.sqrt(math.log(1 / delta))
    return (1 + root) / root


def worst_two_point_law(states: int) -> tuple[float, float]:
    """The law (p on one state, the rest shared) with the largest std of -log d: p, and the std over log S."""
    p = np.linspace(1e-4, 1 - 1e-4, 20_000)
    std = np.sqrt(p * (1 - p)) * np.abs(np.log(p * (states - 1) / (1 - p))) / math.log(states)
    best = int(std.argmax())
    return float(p[best]), float(std[best])


def literal_lemma2_violation(states: int, samples: int, delta: float) -> float:
    """Probability that Lemma 2 fails for the worst two-point law, with the true d inside, as in Eq. (7).

    Exact: the estimate depends on the visits only through the visits of one state, which are binomial.
    """
    p, _ = worst_two_point_law(states)
    visits = torch.arange(samples + 1, dtype=torch.float64)
    total = torch.tensor(float(samples + 1), dtype=torch.float64)
    log_ways = torch.lgamma(total) - torch.lgamma(visits + 1) - torch.lgamma(total - visits)
    chance = torch.exp(log_ways + visits * math.log(p) + (samples - visits) * math.log1p(-p))
    error = (visits / samples - p).abs() * abs(math.log(p * (states - 1) / (1 - p)))
    bound = math.log(states) * math.sqrt(math.log(2 / delta) / (2 * samples))
    return float(chance[error > bound].sum())


def stationary_law(next_state: NDArray[np.int32]) -> Floats:
    """The stationary distribution of uniform random actions in each maze, ``[N, S, 4] -> [N, S]``.

    It need not be uniform, since with portals a walk can enter a cell by one way and leave by another.
    """
    mazes, states, actions = next_state.shape
    laws = np.empty((mazes, states))
    rows = np.repeat(np.arange(states), actions)
    for maze in range(mazes):
        balance = -np.eye(states)
        np.add.at(balance, (next_state[maze].ravel(), rows), 1.0 / actions)
        balance[-1] = 1.0  # the equations are dependent; the last is replaced by Σd = 1
        laws[maze] = np.linalg.solve(balance, np.eye(states)[-1])
    return laws


def walk_counts(
    next_state: NDArray[np.int32], walks: int, steps: Sequence[int], rng: np.random.Generator
) -> Iterator[Ints]:
    """Visit counts ``[N * walks, S]`` of random walks from state 0 after each number of steps, s_0 included."""
    mazes, states, actions = next_state.shape
    table = (next_state.astype(np.int64) + np.arange(mazes)[:, None, None] * states).ravel()
    position = np.repeat(np.arange(mazes) * states, walks)  # [W]: maze * S + state
    offset = np.arange(mazes * walks) * states - position  # from a position to the counter of this walk
    counts = np.zeros(mazes * walks * states, np.int64)
    counts[offset + position] += 1
    done = 0
    for stop in sorted(steps):
        while done < stop:
            block = min(1000, stop - done)
            for action in rng.integers(0, actions, (block, len(position)), dtype=np.uint8):
                position = table[position * actions + action]
                counts[offset + position] += 1
            done += block
        yield counts.reshape(-1, states).copy()


def _relative_error(errors: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
