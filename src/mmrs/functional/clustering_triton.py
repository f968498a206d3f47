"""Greedy k-means++ in Triton; imported only where there is Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def plus_plus(table, weight, draws, picks, length, sets, k, trials: tl.constexpr, room: tl.constexpr):  # type: ignore[no-untyped-def]
    """One program a set. Each turn draws candidates in proportion to the squared distance to what is picked so far,
    and takes the one that lowers the sum of it most."""
    own = tl.program_id(0)
    place = tl.arange(0, room)
    trial = tl.arange(0, trials)
    inside = place < length
    nearest = tl.load(weight + own * length + place, mask=inside, other=0.0)
    for turn in range(k):
        total = tl.cumsum(nearest, 0)
        bound = tl.load(draws + (turn * sets + own) * trials + trial) * tl.max(total, 0)
        passed = (total[None, :] <= bound[:, None]) & inside[None, :]
        pick = tl.minimum(tl.sum(passed.to(tl.int32), 1), length - 1)
        row = table + (own * length + pick)[:, None].to(tl.int64) * length + place[None, :]
        closer = tl.load(row, mask=inside[None, :], other=0.0)
        if turn > 0:
            closer = tl.minimum(closer, nearest[None, :])
        best = trial == tl.argmin(tl.sum(closer, 1), 0)
        nearest = tl.sum(tl.where(best[:, None], closer, 0.0), 0)
        tl.store(picks + own * k + turn, tl.sum(tl.where(best, pick, 0), 0).to(tl.int64))
