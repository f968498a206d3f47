"""Distances and k-th neighbors against brute force and scikit-learn."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from mmrs.functional.neighbors import knn_distances, squared_distances


def brute(points, mask, k):
    out = np.zeros(mask.shape)
    for g, row in enumerate(mask):
        seen = np.flatnonzero(row)
        for i in seen:
            others = sorted(np.linalg.norm(points[g, i] - points[g, j]) for j in seen if j != i)
            out[g, i] = others[min(k, len(others)) - 1] if others else 0.0
    return out


@given(sets=st.integers(1, 3), length=st.integers(1, 8), k=st.integers(1, 10), seed=st.integers(0, 99))
def test_knn_is_brute_force_with_masks_and_small_sets(sets, length, k, seed):
    rng = np.random.default_rng(seed)
    points = rng.integers(-3, 4, (sets, length, 2)).astype(np.float64)  # integers: many ties and repeats
    mask = rng.random((sets, length)) < 0.7
    found = knn_distances(torch.from_numpy(points), torch.from_numpy(mask), k)
    np.testing.assert_allclose(found, brute(points, mask, k), atol=1e-7)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_knn_is_scikit_learn(offset):
    points = (np.random.default_rng(0).standard_normal((300, 16)) + offset).astype(np.float32)
    theirs = NearestNeighbors(n_neighbors=4).fit(points.astype(np.float64)).kneighbors()[0][:, 2]
    ours = knn_distances(torch.from_numpy(points).unsqueeze(0), torch.ones(1, 300, dtype=torch.bool), 3)[0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_a_state_visited_k_more_times_is_at_exactly_zero():
    x = torch.randn(1, 1, 64) * 100
    x = torch.cat([x.expand(1, 4, 64), torch.randn(1, 9, 64) * 100], 1)
    assert (knn_distances(x, torch.ones(1, 13, dtype=torch.bool), 3)[0, :4] == 0).all()


def test_padding_changes_nothing():
    x, mask = torch.randn(2, 9, 3), torch.rand(2, 9) < 0.6
    other = torch.where(mask.unsqueeze(-1), x, 100 * torch.randn(2, 9, 3))
    assert torch.equal(knn_distances(x, mask, 2), knn_distances(other, mask, 2))


def test_squared_distances_are_never_negative():
    x = torch.full((1, 50, 8), 1234.567) + 1e-3 * torch.randn(1, 50, 8)
    assert squared_distances(x, x).min() >= 0
    a, b = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(2, 4, 3, dtype=torch.float64)
    torch.testing.assert_close(squared_distances(a, b), torch.cdist(a, b) ** 2)
