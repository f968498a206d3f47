"""Entropy estimators against closed forms."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmrs.errors import InputError
from mmrs.functional import entropy
from mmrs.functional.fairness import jain_index

WALK = torch.tensor([0, 1, 1, 3])
count_vectors = st.lists(st.integers(0, 30), min_size=2, max_size=20).filter(lambda c: sum(c) >= 2)


def test_empirical_distribution_divides_by_the_number_of_visits():
    estimate = entropy.empirical_distribution(WALK, 5)
    assert estimate.tolist() == [0.25, 0.5, 0.0, 0.25, 0.0]


def test_estimators_take_batches():
    batch = torch.stack([WALK, torch.tensor([4, 4, 4, 4])])
    assert entropy.empirical_distribution(batch, 5)[1].tolist() == [0, 0, 0, 0, 1]
    alone = entropy.discounted_distribution(WALK, 5, 0.9)
    torch.testing.assert_close(entropy.discounted_distribution(batch, 5, 0.9)[0], alone, rtol=0, atol=0)


def test_discounted_distribution_is_the_normalized_formula():
    gamma, steps = 0.5, len(WALK) - 1
    factor = (1 - gamma) / (1 - gamma ** (steps + 1))
    expected = [factor, factor * (gamma + gamma**2), 0.0, factor * gamma**3, 0.0]
    estimate = entropy.discounted_distribution(WALK, 5, gamma)
    assert estimate.tolist() == pytest.approx(expected, abs=1e-15)
    assert float(estimate.sum()) == pytest.approx(1.0, abs=1e-15)


def test_discounted_distribution_without_discount_is_the_empirical_one():
    one, other = entropy.discounted_distribution(WALK, 5, 1.0), entropy.empirical_distribution(WALK, 5)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("gamma", [0.0, -0.1, 1.01, math.nan])
def test_discounted_distribution_refuses_other_discounts(gamma):
    with pytest.raises(InputError, match=r"\(0, 1\]"):
        entropy.discounted_distribution(WALK, 5, gamma)


@pytest.mark.parametrize("labels", [[0, 5], [-1, 0], []])
def test_labels_outside_the_states_are_refused(labels):
    with pytest.raises(InputError):
        entropy.empirical_distribution(torch.tensor(labels, dtype=torch.int64), 5)


def test_entropies_of_uniform_and_point_distributions():
    uniform, point = torch.full((7,), 1 / 7), torch.eye(7)[2]
    for of in (entropy.shannon_entropy, entropy.renyi2_entropy):
        assert float(of(uniform)) == pytest.approx(math.log(7), abs=1e-6)
        assert float(of(point)) == 0.0


def test_plug_in_entropy_of_counts():
    assert float(entropy.plug_in_entropy(torch.tensor([1, 1, 2]))) == pytest.approx(1.5 * math.log(2), abs=1e-15)
    assert float(entropy.plug_in_entropy(torch.zeros(4, dtype=torch.int64))) == 0.0


@given(count_vectors)
def test_jain_index_is_the_exponential_of_the_renyi_entropy(counts):
    c = torch.tensor(counts)
    via_entropy = entropy.renyi2_entropy(c / c.sum()).exp() / len(counts)
    assert float(jain_index(c)) == pytest.approx(float(via_entropy), rel=1e-6)


@given(count_vectors)
def test_renyi_entropy_never_exceeds_the_shannon_entropy(counts):
    d = torch.tensor(counts).double() / sum(counts)
    assert float(entropy.renyi2_entropy(d)) <= float(entropy.shannon_entropy(d)) + 1e-12


def test_collision_probability_is_unbiased_where_the_plug_in_is_not():
    d = torch.tensor([0.5, 0.3, 0.1, 0.1], dtype=torch.float64)
    draws = torch.multinomial(d.expand(20_000, 4), 10, replacement=True, generator=torch.manual_seed(0))
    counts = entropy.visit_counts(draws, 4)
    truth = float(d.square().sum())
    assert float(entropy.collision_probability(counts).mean()) == pytest.approx(truth, abs=0.004)
    plug_in = (counts / 10.0).square().sum(-1).mean()
    assert float(plug_in) == pytest.approx(truth + (1 - truth) / 10, abs=0.004)  # the self-collisions


def test_collision_probability_of_small_records():
    counts = torch.tensor([[2, 0], [1, 1], [1, 0], [3, 1]])
    assert entropy.collision_probability(counts)[[0, 1, 3]].tolist() == [1.0, 0.0, 0.5]
    assert math.isnan(entropy.collision_probability(counts)[2])


@pytest.mark.parametrize(("dimension", "tolerance"), [(1, 0.05), (2, 0.05), (3, 0.08), (5, 0.2)])
def test_knn_entropy_of_a_gaussian(dimension, tolerance):
    x = 2.0 * torch.randn(3, 2000, dimension, dtype=torch.float64, generator=torch.manual_seed(1))
    truth = 0.5 * dimension * math.log(2 * math.pi * math.e * 4.0)
    estimate = entropy.knn_entropy(x, k=3)  # [3]
    assert estimate.shape == (3,)
    assert float((estimate - truth).abs().mean()) < tolerance


def test_knn_entropy_of_a_uniform_square_is_its_log_area():
    x = 3.0 * torch.rand(4000, 2, dtype=torch.float64, generator=torch.manual_seed(2))
    assert float(entropy.knn_entropy(x, k=5)) == pytest.approx(math.log(9.0), abs=0.06)


def test_knn_entropy_by_hand_and_under_scaling():
    x = torch.tensor([[0.0], [1.0], [3.0]])
    euler = 0.57721566490153286
    expected = math.log(3) + math.log(2) + euler + (math.log(1) + math.log(1) + math.log(2)) / 3
    assert float(entropy.knn_entropy(x, k=1)) == pytest.approx(expected, abs=1e-12)
    assert float(entropy.knn_entropy(10 * x, k=1)) == pytest.approx(expected + math.log(10), abs=1e-12)


def test_knn_entropy_of_coinciding_points_is_minus_infinity():
    assert float(entropy.knn_entropy(torch.zeros(5, 2), k=2)) == -math.inf


@pytest.mark.parametrize("k", [0, 4])
def test_knn_entropy_refuses_impossible_neighbors(k):
    with pytest.raises(InputError, match="between 1 and 3"):
        entropy.knn_entropy(torch.zeros(4, 2), k=k)
