"""The start of k-means on a GPU as one kernel: as calls of torch it is a thousand that wait for each other."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor


def pick_starts(table: Tensor, weight: Tensor, draws: Tensor) -> Tensor | None:
    """Greedy k-means++: ``[G, k]`` states to start from, or None where the kernel cannot be had.

    Args:
        table: ``[G, L, L]`` squared distances, 0 to padding.
        weight: ``[G, L]`` 1, and 0 on padding.
        draws: ``[k, G, trials]`` uniform numbers; the trials must be a power of 2.
    """
    kernel = _kernel()
    if kernel is None:
        return None
    k, sets, trials = draws.shape
    length = weight.shape[1]
    picks = torch.empty(sets, k, dtype=torch.int64, device=table.device)
    room = max(16, 1 << (length - 1).bit_length())
    inputs = (part.contiguous() for part in (table, weight, draws))
    kernel[(sets,)](*inputs, picks, length, sets, k, trials, room, num_warps=min(32, max(4, room // 64)))
    return picks


@cache
def _kernel() -> Any:
    """The compiled kernel, None without Triton (which torch brings along on Linux) or a compiler for it to use."""
    try:
        from mmrs.functional.clustering_triton import plus_plus  # noqa: PLC0415
    except ImportError:
        return None
    try:
        one = torch.ones(1, 1, device="cuda")
        picks = torch.empty(1, 1, dtype=torch.int64, device="cuda")
        plus_plus[(1,)](one, one, one, picks, 1, 1, 1, 1, 16, num_warps=4)
    except Exception as error:  # whatever is missing there, the calls of torch do the same
        warnings.warn(f"Triton does not work here ({error!r}): k-means on the GPU takes longer.", stacklevel=2)
        return None
    return plus_plus
