"""The code book's moves against plain loops."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmrs.functional.landmarks import admit, nearest


def squared(a, b):
    return float(((a - b) ** 2).sum())


def plain_admit(x, allowed, centres, mass, held, most_merges, ratio):
    """Streaming k-centre, one distance at a time."""
    book, mass, into, source = [c.copy() for c in centres[:held]], mass.copy(), list(range(len(centres))), {}
    merges = 0
    while True:
        gaps = np.where(allowed, [min([squared(p, c) for c in book], default=np.inf) for p in x], 0.0)
        worst = int(np.argmax(gaps))
        if gaps[worst] <= 1e-7:
            break
        if len(book) < len(centres):
            source[len(book)] = worst
            book.append(x[worst].copy())
            continue
        pairs = {(i, j): squared(book[i], book[j]) for i in range(len(book)) for j in range(i + 1, len(book))}
        if merges == most_merges or not pairs or gaps[worst] <= ratio * min(pairs.values()):
            break
        i, j = min(pairs, key=pairs.get)
        keep, leave = (i, j) if mass[i] >= mass[j] else (j, i)
        mass[keep], mass[leave] = mass[keep] + mass[leave], 0
        into = [keep if place == leave else place for place in into]
        book[leave], source[leave] = x[worst].copy(), worst
        merges += 1
    return source, into, len(book), merges


@given(
    k=st.integers(1, 6),
    full=st.booleans(),
    most_merges=st.integers(0, 4),
    offset=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 999),
)
def test_moves_are_those_of_plain_loops(k, full, most_merges, offset, seed):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((20, 3)) * rng.choice([0.1, 1.0, 5.0], (20, 1)) + offset).astype(np.float32)
    x[10:13] = x[0]  # seen again
    allowed = rng.random(20) < 0.8
    held = k if full else int(rng.integers(0, k + 1))
    centres = np.zeros((k, 3), np.float32)
    centres[:held] = rng.standard_normal((held, 3)) + offset
    mass = rng.integers(0, 5, k) * (np.arange(k) < held)
    source, into, now_held, merges = plain_admit(
        x.astype(float), allowed, centres.astype(float), mass, held, most_merges, 1.2
    )
    parts = (torch.from_numpy(v) for v in (x, allowed, centres, mass))
    moves = admit(*parts, held, most_merges=most_merges, ratio=1.2)
    assert {place: s for place, s in enumerate(moves.source.tolist()) if s >= 0} == source
    assert moves.into.tolist() == into
    assert (moves.held, moves.merges) == (now_held, merges)


def test_the_nearest_landmark_and_its_distance():
    centres = torch.zeros(4, 2)
    centres[:3] = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]) + 1e3
    x = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 9.0]]) + 1e3
    label, distance = nearest(x, centres, 3)
    assert label.tolist() == [0, 1, 2]
    assert distance.tolist() == [1.0, 0.0, 25.0]
    label, distance = nearest(x, torch.zeros(4, 2), 0)
    assert label.tolist() == [0, 0, 0]
    assert distance.isinf().all()


def test_nothing_allowed_moves_nothing():
    x, nobody = torch.randn(5, 2), torch.zeros(5, dtype=torch.bool)
    moves = admit(x, nobody, torch.zeros(3, 2), torch.zeros(3), 0, most_merges=9, ratio=1.2)
    assert (moves.held, moves.merges, moves.source.tolist()) == (0, 0, [-1, -1, -1])
