"""Updates of the codebook against plain loops."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mmrs.functional.codebook import confirmed_states, insert_landmarks, nearest_landmark


def squared(a, b):
    return float(((a - b) ** 2).sum())


def plain_insert(x, mask, centers, used, visit_count, max_merges, insert_ratio, min_sq_dist):
    """Streaming k-center, one distance at a time, on a dictionary from slots to landmarks."""
    codebook = {slot: centers[slot] for slot in range(len(centers)) if used[slot]}
    count, merged_into, source, merges = visit_count.copy(), list(range(len(centers))), {}, 0

    def closest():
        pairs = {(i, j): squared(codebook[i], codebook[j]) for i in sorted(codebook) for j in sorted(codebook) if i < j}
        return min(pairs.items(), key=lambda pair: pair[1], default=(None, np.inf))

    def merge():
        i, j = closest()[0]
        keep, drop = (i, j) if count[i] >= count[j] else (j, i)
        count[keep], count[drop] = count[keep] + count[drop], 0
        merged_into[:] = [keep if slot == drop else slot for slot in merged_into]
        source.pop(drop, None)
        del codebook[drop]
        return drop

    free = [slot for slot in range(len(centers)) if slot not in codebook]
    while merges < max_merges and closest()[1] <= min_sq_dist:
        free.insert(0, merge())
        merges += 1
    while True:
        gaps = np.where(mask, [min([squared(p, c) for c in codebook.values()], default=np.inf) for p in x], 0.0)
        worst = int(np.argmax(gaps))
        if gaps[worst] <= min_sq_dist:
            break
        if not free:
            if merges == max_merges or gaps[worst] <= insert_ratio * closest()[1]:
                break
            free.insert(0, merge())
            merges += 1
        slot = free.pop(0)
        codebook[slot], source[slot] = x[worst], worst
    return source, merged_into, sorted(codebook), merges


@settings(max_examples=200)
@given(
    k=st.integers(2, 6),
    used=st.sampled_from([0.0, 0.6, 1.0]),
    max_merges=st.integers(0, 6),
    min_sq_dist=st.sampled_from([1e-6, 0.5]),
    offset=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 999),
)
def test_insertion_agrees_with_plain_loops(k, used, max_merges, min_sq_dist, offset, seed):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((20, 3)) * rng.choice([0.1, 1.0, 5.0], (20, 1)) + offset).astype(np.float32)
    x[10:13] = x[0]  # seen again
    mask, used = rng.random(20) < 0.8, rng.random(k) < used
    centers = (rng.standard_normal((k, 3)) + offset).astype(np.float32)
    count = rng.integers(0, 5, k) * used
    plain = plain_insert(x.astype(float), mask, centers.astype(float), used, count, max_merges, 1.2, min_sq_dist)
    parts = (torch.from_numpy(v) for v in (x, mask, centers, used, count))
    update = insert_landmarks(*parts, max_merges=max_merges, insert_ratio=1.2, min_sq_dist=min_sq_dist)
    source = {slot: s for slot, s in enumerate(update.source.tolist()) if s >= 0}
    found = (source, update.merged_into.tolist(), update.used.nonzero().flatten().tolist(), update.merges)
    assert found == plain


def test_confirmed_states():
    x = torch.tensor([[0.0], [9.0], [0.1], [5.0], [5.0], [9.0], [0.0]])
    env, time = torch.tensor([0, 0, 0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 3, 4, 1, 2])
    visited = torch.tensor([True] * 6 + [False])
    revisited, multi_env = (
        confirmed_states(x, visited, env, time, torch.tensor(0.1), multi_env=only) for only in (False, True)
    )
    assert revisited.tolist() == [True, True, True, False, False, True, False]  # staying at 5 is not a second visit
    assert multi_env.tolist() == [False, True, False, False, False, True, False]


def test_the_nearest_landmark_and_its_distance():
    centers = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 9.0], [0.0, 4.0]]) + 1e3
    used = torch.tensor([True, True, False, True])
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 9.0]]) + 1e3
    label, distance = nearest_landmark(x, centers, used)
    assert label.tolist() == [0, 1, 3]
    assert distance.tolist() == [1.0, 0.0, 25.0]
    label, distance = nearest_landmark(x, centers, torch.zeros(4, dtype=torch.bool))
    assert label.tolist() == [0, 0, 0]
    assert distance.isinf().all()


def test_without_candidates_nothing_changes():
    x, nothing, unused = torch.randn(5, 2), torch.zeros(5, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)
    update = insert_landmarks(x, nothing, torch.zeros(3, 2), unused, torch.zeros(3), max_merges=9, insert_ratio=1.2)
    assert (update.used.any(), update.merges, update.source.tolist()) == (False, 0, [-1, -1, -1])
