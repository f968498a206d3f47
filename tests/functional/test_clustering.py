"""Batched, masked k-means."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from mmrs.functional import clustering, clustering_cpu
from mmrs.functional.clustering import inertia, kmeans


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def every(x):
    return torch.ones(x.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_inertia_is_as_good_as_scikit_learn(offset):
    rng = np.random.default_rng(0)
    good = 0
    draws = 200 if offset == 0 else 20
    for draw in range(draws):
        k, n, d = int(rng.integers(2, 12)), int(rng.integers(30, 130)), int(rng.integers(2, 17))
        kind = draw % 3
        points = rng.standard_normal((n, d))  # no structure
        if kind == 1:  # clusters
            points += 4 * rng.standard_normal((k, d))[rng.integers(0, k, n)]
        elif kind == 2:  # a walk, as states of an episode are
            points = points.cumsum(0)
        points = (points + offset).astype(np.float32)
        x = torch.from_numpy(points).unsqueeze(0)
        ours = inertia(x.double(), every(x), kmeans(x, every(x), k, seeded(draw)), k).item()
        theirs = KMeans(k, n_init=10, random_state=draw).fit(points.astype(np.float64)).inertia_
        good += ours <= 1.10 * theirs
    assert good >= 0.95 * draws


@pytest.mark.parametrize("size", [200, 512])
def test_wide_sets_are_clustered_as_well_in_their_randomized_pca(size):
    rng = np.random.default_rng(size)
    for draw in range(6):
        points = rng.standard_normal((400, size))
        if draw % 2:  # many clusters with some noise around each
            points = 0.3 * points + rng.standard_normal((60, size))[rng.integers(0, 60, 400)]
        x = torch.from_numpy(points.astype(np.float32)).unsqueeze(0)
        ours = inertia(x, every(x), kmeans(x, every(x), 64, seeded(draw)), 64).item()
        assert ours <= 1.05 * KMeans(64, n_init=1, random_state=draw).fit(points).inertia_


def test_sets_too_large_for_a_table_of_distances_start_the_same(monkeypatch):
    x = torch.randn(2, 60, 5, generator=seeded(4))
    mask = torch.rand(2, 60, generator=seeded(5)) < 0.8
    labels = kmeans(x, mask, 9, seeded())
    monkeypatch.setattr(clustering, "MAX_TABLE_STATES", 1)
    assert torch.equal(kmeans(x, mask, 9, seeded()), labels)


def test_inertia_is_the_squared_distance_to_the_means():
    x = torch.tensor([[[0.0], [2.0], [10.0], [99.0]]])
    mask = torch.tensor([[True, True, True, False]])
    assert inertia(x, mask, torch.tensor([[0, 0, 1, 0]]), 2).tolist() == [2.0]


@given(
    sets=st.integers(1, 4),
    length=st.integers(1, 9),
    k=st.integers(1, 12),
    distinct=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_few_distinct_states_many_clusters_and_masks(sets, length, k, distinct, seed):
    rng = np.random.default_rng(seed)
    states = torch.from_numpy(10 * rng.standard_normal((distinct, 3)).astype(np.float32))
    number = torch.from_numpy(rng.integers(0, distinct, (sets, length)))
    mask = torch.from_numpy(rng.random((sets, length)) < 0.7)
    labels = kmeans(states[number], mask, k, seeded(seed))
    assert labels.shape == (sets, length)
    assert labels.min() >= 0
    assert labels.max() < k
    assert (labels[~mask] == 0).all()
    for g in range(sets):
        seen = {(int(n), int(label)) for n, label in zip(number[g][mask[g]], labels[g][mask[g]], strict=True)}
        assert len(seen) == len({n for n, _ in seen}), "equal states have one label"
        if k >= distinct:
            assert len(seen) == len({label for _, label in seen}), "with enough clusters each state has its own"


WIDTHS = pytest.mark.parametrize("width", [4, 200])
"""Wide sets are reduced to their main directions first."""


@WIDTHS
def test_padding_changes_nothing(width):
    x = torch.randn(3, 20, width, generator=seeded(1))
    mask = torch.rand(3, 20, generator=seeded(2)) < 0.6
    other = torch.where(mask.unsqueeze(-1), x, 1e3 * torch.randn(3, 20, width, generator=seeded(3)))
    assert torch.equal(kmeans(x, mask, 5, seeded()), kmeans(other, mask, 5, seeded()))


@WIDTHS
def test_sets_are_independent(width):
    x = torch.randn(3, 20, width, generator=seeded(1))
    other = x.clone()
    other[1] = torch.randn(20, width, generator=seeded(2)) * 50
    a, b = kmeans(x, every(x), 5, seeded()), kmeans(other, every(x), 5, seeded())
    assert torch.equal(a[[0, 2]], b[[0, 2]])


def test_batched_equals_one_by_one(monkeypatch):
    x = torch.randn(4, 30, 3, generator=seeded(1))
    mask = torch.rand(4, 30, generator=seeded(2)) < 0.8
    noise = torch.rand(6, 4, clustering.N_LOCAL_TRIALS, generator=seeded(3))
    monkeypatch.setattr(torch, "rand", lambda *_, **__: noise)
    batched = kmeans(x, mask, 6, seeded())
    for g in range(4):
        monkeypatch.setattr(torch, "rand", lambda *_, g=g, **__: noise[:, g : g + 1])
        assert torch.equal(kmeans(x[g : g + 1], mask[g : g + 1], 6, seeded())[0], batched[g])


@WIDTHS
def test_the_same_generator_gives_the_same_labels_and_is_advanced_alike(width):
    x = torch.randn(2, 40, width, generator=seeded(1))
    first, second, everyone = seeded(7), seeded(7), torch.get_rng_state()
    assert torch.equal(kmeans(x, every(x), 4, first), kmeans(x, every(x), 4, second))
    assert torch.equal(torch.get_rng_state(), everyone)
    torch.rand(4, 2, clustering.N_LOCAL_TRIALS, generator=(third := seeded(7)))
    assert torch.equal(first.get_state(), third.get_state())


@pytest.mark.parametrize(("clusters", "width"), [(6, 6), (6, 200), (100, 200)])
def test_separated_clusters_are_found(clusters, width):
    """Also where each lies in its own direction and there are more of them than `PCA_DIM`."""
    centers = 100 * torch.eye(width)[:clusters]
    number = torch.arange(10 * clusters) % clusters
    x = (centers[number] + 0.1 * torch.randn(10 * clusters, width, generator=seeded())).unsqueeze(0)
    labels = kmeans(x, every(x), clusters, seeded(1))[0]
    pairs = {(int(n), int(label)) for n, label in zip(number, labels, strict=True)}
    assert len(pairs) == len(labels.unique()) == clusters


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_randomized_pca_are_orthonormal_and_hold_all_of_a_set_that_has_no_more(dtype):
    latent = torch.randn(2, 50, 12, generator=seeded(1), dtype=dtype)
    x = latent @ torch.randn(2, 12, 200, generator=seeded(2), dtype=dtype)
    directions = clustering._randomized_pca(x)
    assert directions.shape == (2, 200, clustering.PCA_DIM)
    unit = torch.eye(clustering.PCA_DIM, dtype=dtype).expand(2, -1, -1)
    torch.testing.assert_close(directions.mT @ directions, unit, atol=1e-5, rtol=0)
    torch.testing.assert_close(x @ directions @ directions.mT, x, atol=1e-3, rtol=1e-3)
    assert clustering._randomized_pca(torch.zeros(1, 3, 200)).isfinite().all()


def test_an_empty_cluster_keeps_its_center():
    x, weight = torch.tensor([[[0.0], [4.0]]]), torch.ones(1, 2)
    centers = clustering._means(x, weight, torch.zeros(1, 2, dtype=torch.int64), torch.tensor([[[9.0], [7.0]]]))
    assert centers.flatten().tolist() == [2.0, 7.0]


@WIDTHS
@pytest.mark.parametrize("scale", [0.0, 1e-20, 1e15])
def test_extreme_scales_stay_usable(scale, width):
    x = scale * torch.randn(2, 10, width, generator=seeded())
    labels = kmeans(x, every(x), 4, seeded())
    assert labels.min() >= 0
    assert labels.max() < 4


def test_kmeans_plus_plus_ends_with_the_last_distinct_state():
    points = torch.randn(5, 40, generator=seeded()).repeat(20, 1) + 100.0  # far out, where rounding is coarse
    centered = points - points.mean(0)
    table = torch.cdist(centered, centered).square().numpy()
    rounding = 16 * np.finfo(np.float32).eps * centered.square().sum(1).numpy()
    picks = clustering_cpu._plus_plus(table, torch.rand(9, 8, generator=seeded()).numpy(), rounding)
    assert sorted(picks % 5) == [0, 1, 2, 3, 4]


def test_one_state_far_off_leaves_the_others_their_clusters():
    points = torch.randn(1, 300, 8, generator=seeded())
    points[0, 7] *= 1e4
    labels = kmeans(points, every(points), 64, seeded())
    assert len(labels.unique()) == 64


@pytest.mark.parametrize(("states", "distinct", "size"), [(60, 60, 3), (200, 200, 100), (40, 5, 4)])
def test_a_single_set_is_clustered_as_in_a_batch(states, distinct, size):
    points = torch.randn(1, distinct, size, generator=seeded(3)).repeat(1, states // distinct, 1)
    noise = clustering.draw_init_noise(1, 8, seeded(4))
    alone = clustering.kmeans_from(points, every(points), noise)
    pair = points.repeat(2, 1, 1)
    together = clustering.kmeans_from(pair, every(pair), noise.repeat(1, 2, 1))
    assert torch.equal(alone.expand(2, -1), together)
    padded = torch.cat([points, torch.full_like(points[:, :3], 1e3)], 1)
    mask = torch.arange(padded.shape[1]).unsqueeze(0) < points.shape[1]
    assert torch.equal(clustering.kmeans_from(padded, mask, noise)[:, :-3], alone)
