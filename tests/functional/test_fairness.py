"""Jain's index, its running curve and the gain, against recounts by dictionary and exact fractions."""

import math
from collections import Counter
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmrs.functional.entropy import empirical_distribution, renyi2_entropy
from mmrs.functional.fairness import gain, jain_from_sums, jain_index, visit_curve

STATES = st.integers(2, 8)
WALKS = st.lists(st.integers(0, 7), min_size=1, max_size=40)


def jain(counts, size):
    return Fraction(sum(counts.values()) ** 2, size * sum(c * c for c in counts.values()))


@given(walk=WALKS)
def test_each_visit_raises_j_by_at_most_one_over_s_and_by_that_only_while_nothing_was_repeated(walk):
    curve = visit_curve(torch.tensor([walk]))
    exact = [jain(Counter(walk[: i + 1]), 8) for i in range(len(walk))]
    for i in range(1, len(walk)):
        rise = exact[i] - exact[i - 1]
        assert rise <= Fraction(1, 8)
        assert (rise == Fraction(1, 8)) == (len(set(walk[: i + 1])) == i + 1)
    assert curve.jain_index(8)[0].tolist() == pytest.approx([float(j) for j in exact], rel=1e-15)


@given(walk=WALKS, size=st.integers(8, 12))
def test_j_is_the_exponential_of_the_renyi_2_entropy_over_s(walk, size):
    labels = torch.tensor([walk])
    expected = renyi2_entropy(empirical_distribution(labels, size)).exp() / size
    torch.testing.assert_close(visit_curve(labels).jain_index(size)[:, -1], expected)
    torch.testing.assert_close(jain_index(torch.bincount(labels[0], minlength=size)), expected[0])


@given(walk=WALKS, gamma=st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_discounted_gains_telescope(walk, gamma):
    j = visit_curve(torch.tensor([walk])).jain_index(8)[0]
    gains = gain(j[:-1], j[1:], gamma)
    steps = len(gains)
    weights = gamma ** torch.arange(steps, dtype=torch.float64)
    torch.testing.assert_close((weights * gains).sum(), gamma**steps * j[-1] - j[0])


@given(data=st.data(), rows=st.integers(1, 3), length=st.integers(0, 12))
def test_the_curve_is_a_recount_by_dictionary(data, rows, length):
    size = 4
    cells = st.lists(st.integers(0, size - 1), min_size=length, max_size=length)
    labels = [data.draw(cells) for _ in range(rows)]
    counted = [data.draw(st.lists(st.booleans(), min_size=length, max_size=length)) for _ in range(rows)]
    segments = [sorted(data.draw(cells)) for _ in range(rows)]
    carried = [data.draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)) for _ in range(rows)]
    shape = (rows, length)
    curve = visit_curve(
        torch.tensor(labels, dtype=torch.int64).view(shape),
        torch.tensor(counted, dtype=torch.bool).view(shape),
        torch.tensor(segments, dtype=torch.int64).view(shape),
        torch.tensor(carried),
    )
    index, entropy = curve.jain_index(size), curve.entropy()
    for g in range(rows):
        counts, now = Counter(dict(enumerate(carried[g]))), 0
        for i in range(length):
            if segments[g][i] != now:
                counts, now = Counter(), segments[g][i]
            assert curve.earlier[g, i] == counts[labels[g][i]]
            counts[labels[g][i]] += counted[g][i]
            n = sum(counts.values())
            assert curve.visits[g, i] == n
            assert curve.square_sum[g, i] == sum(c * c for c in counts.values())
            assert curve.distinct[g, i] == sum(c > 0 for c in counts.values())
            assert index[g, i] == pytest.approx(float(jain(counts, size)) if n else 1 / size, rel=1e-15)
            plug_in = -sum(c / n * math.log(c / n) for c in counts.values() if c) if n else 0.0
            assert entropy[g, i] == pytest.approx(plug_in, abs=1e-9)


def test_before_the_first_visit_j_is_one_over_s():
    assert jain_index(torch.zeros(3, 5)).tolist() == [0.2] * 3
    assert jain_from_sums(torch.tensor(0), torch.tensor(0), 4).item() == 0.25


def test_long_curves_stay_exact():
    labels = torch.randint(0, 3, (1, 200_000), generator=torch.Generator().manual_seed(0))
    curve = visit_curve(labels)
    counts = torch.bincount(labels[0])
    assert curve.square_sum[0, -1] == counts.square().sum()
    assert curve.visits[0, -1] == 200_000
