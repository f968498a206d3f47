"""Greedy k-means++ on a GPU as one Triton kernel; as calls of torch it is a thousand kernels in sequence.

Triton is imported when a GPU first needs a kernel. Without Triton, or without a compiler for it, torch does the same.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

tl: Any = None
"""`triton.language`, which the body of a kernel names; set by `_compiled`."""


def choose_centers_triton(table: Tensor, weight: Tensor, noise: Tensor) -> Tensor | None:
    """Indices ``[G, k]`` of the states to start from, or None where Triton does not work.

    Args:
        table: ``[G, L, L]`` squared distances, 0 to padding.
        weight: ``[G, L]`` 1, and 0 on padding.
        noise: ``[k, G, trials]`` uniform; the number of trials must be a power of 2.
    """
    if not triton_works():
        return None
    k, sets, trials = noise.shape
    length = weight.shape[1]
    chosen = torch.empty(sets, k, dtype=torch.int64, device=table.device)
    size = max(16, 1 << (length - 1).bit_length())
    inputs = (part.contiguous() for part in (table, weight, noise))
    _compiled()[(sets,)](*inputs, chosen, length, sets, k, trials, size, num_warps=min(32, max(4, size // 64)))
    return chosen


@cache
def triton_works() -> bool:
    """Whether there is Triton (which torch installs on Linux) and a compiler for it: found out by running a kernel."""
    try:
        kernel = _compiled()
    except ImportError:
        return False
    try:
        one = torch.ones(1, 1, device="cuda")
        chosen = torch.empty(1, 1, dtype=torch.int64, device="cuda")
        kernel[(1,)](one, one, one, chosen, 1, 1, 1, 1, 16, num_warps=4)
    except Exception as error:  # whatever is missing there
        warnings.warn(f"Triton does not work here ({error!r}): work on the GPU takes longer.", stacklevel=3)
        return False
    return True


@cache
def _compiled() -> Any:
    global tl  # Triton looks names up in the module of the kernel
    triton, tl = import_module("triton"), import_module("triton.language")
    return triton.jit(_kernel)


def _kernel(table, weight, noise, chosen, length, sets, k, trials: tl.constexpr, size: tl.constexpr):  # type: ignore[no-untyped-def]
    """`mmrs.functional.clustering._choose_centers` with one program per set."""
    own = tl.program_id(0)
    column = tl.arange(0, size)
    trial = tl.arange(0, trials)
    inside = column < length
    nearest = tl.load(weight + own * length + column, mask=inside, other=0.0)
    for turn in range(k):
        total = tl.cumsum(nearest, 0)
        bound = tl.load(noise + (turn * sets + own) * trials + trial) * tl.max(total, 0)
        passed = (total[None, :] <= bound[:, None]) & inside[None, :]
        candidate = tl.minimum(tl.sum(passed.to(tl.int32), 1), length - 1)
        row = table + (own * length + candidate)[:, None].to(tl.int64) * length + column[None, :]
        closer = tl.load(row, mask=inside[None, :], other=0.0)
        if turn > 0:
            closer = tl.minimum(closer, nearest[None, :])
        best = trial == tl.argmin(tl.sum(closer, 1), 0)
        nearest = tl.sum(tl.where(best[:, None], closer, 0.0), 0)
        tl.store(chosen + own * k + turn, tl.sum(tl.where(best, candidate, 0), 0).to(tl.int64))
