"""The code book's moves against plain loops."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mmrs.functional.codebook import admit, nearest, seen_twice


def squared(a, b):
    return float(((a - b) ** 2).sum())


def plain_admit(x, allowed, centres, taken, mass, most_merges, ratio, apart):
    """Streaming k-centre, one distance at a time, on a dictionary from places to landmarks."""
    book = {place: centres[place] for place in range(len(centres)) if taken[place]}
    mass, into, source, merges = mass.copy(), list(range(len(centres))), {}, 0

    def closest():
        pairs = {(i, j): squared(book[i], book[j]) for i in sorted(book) for j in sorted(book) if i < j}
        return min(pairs.items(), key=lambda pair: pair[1], default=(None, np.inf))

    def merge():
        i, j = closest()[0]
        keep, leave = (i, j) if mass[i] >= mass[j] else (j, i)
        mass[keep], mass[leave] = mass[keep] + mass[leave], 0
        into[:] = [keep if place == leave else place for place in into]
        source.pop(leave, None)
        del book[leave]
        return leave

    free = [place for place in range(len(centres)) if place not in book]
    while merges < most_merges and closest()[1] <= apart:
        free.insert(0, merge())
        merges += 1
    while True:
        gaps = np.where(allowed, [min([squared(p, c) for c in book.values()], default=np.inf) for p in x], 0.0)
        worst = int(np.argmax(gaps))
        if gaps[worst] <= apart:
            break
        if not free:
            if merges == most_merges or gaps[worst] <= ratio * closest()[1]:
                break
            free.insert(0, merge())
            merges += 1
        place = free.pop(0)
        book[place], source[place] = x[worst], worst
    return source, into, sorted(book), merges


@settings(max_examples=200)
@given(
    k=st.integers(2, 6),
    taken=st.sampled_from([0.0, 0.6, 1.0]),
    most_merges=st.integers(0, 6),
    apart=st.sampled_from([1e-6, 0.5]),
    offset=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 999),
)
def test_moves_are_those_of_plain_loops(k, taken, most_merges, apart, offset, seed):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((20, 3)) * rng.choice([0.1, 1.0, 5.0], (20, 1)) + offset).astype(np.float32)
    x[10:13] = x[0]  # seen again
    allowed, taken = rng.random(20) < 0.8, rng.random(k) < taken
    centres = (rng.standard_normal((k, 3)) + offset).astype(np.float32)
    mass = rng.integers(0, 5, k) * taken
    plain = plain_admit(x.astype(float), allowed, centres.astype(float), taken, mass, most_merges, 1.2, apart)
    parts = (torch.from_numpy(v) for v in (x, allowed, centres, taken, mass))
    moves = admit(*parts, most_merges=most_merges, ratio=1.2, apart=apart)
    source = {place: s for place, s in enumerate(moves.source.tolist()) if s >= 0}
    assert (source, moves.into.tolist(), moves.taken.nonzero().flatten().tolist(), moves.merges) == plain


def test_states_seen_twice():
    x = torch.tensor([[0.0], [9.0], [0.1], [5.0], [5.0], [9.0], [0.0]])
    env, time = torch.tensor([0, 0, 0, 0, 0, 1, 1]), torch.tensor([0, 1, 2, 3, 4, 1, 2])
    visited = torch.tensor([True] * 6 + [False])
    again, elsewhere = (seen_twice(x, visited, env, time, torch.tensor(0.1), elsewhere=e) for e in (False, True))
    assert again.tolist() == [True, True, True, False, False, True, False]  # staying at 5 is not seeing it again
    assert elsewhere.tolist() == [False, True, False, False, False, True, False]


def test_the_nearest_landmark_and_its_distance():
    centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 9.0], [0.0, 4.0]]) + 1e3
    taken = torch.tensor([True, True, False, True])
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 9.0]]) + 1e3
    label, distance = nearest(x, centres, taken)
    assert label.tolist() == [0, 1, 3]
    assert distance.tolist() == [1.0, 0.0, 25.0]
    label, distance = nearest(x, centres, torch.zeros(4, dtype=torch.bool))
    assert label.tolist() == [0, 0, 0]
    assert distance.isinf().all()


def test_nothing_allowed_moves_nothing():
    x, nobody, no_place = torch.randn(5, 2), torch.zeros(5, dtype=torch.bool), torch.zeros(3, dtype=torch.bool)
    moves = admit(x, nobody, torch.zeros(3, 2), no_place, torch.zeros(3), most_merges=9, ratio=1.2)
    assert (moves.taken.any(), moves.merges, moves.source.tolist()) == (False, 0, [-1, -1, -1])
