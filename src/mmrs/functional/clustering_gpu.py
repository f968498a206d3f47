"""The start of k-means on a GPU as one kernel: as calls of torch it is a thousand that wait for each other."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.functional.triton_kernels import triton_kernels


def pick_starts(table: Tensor, weight: Tensor, draws: Tensor) -> Tensor | None:
    """Greedy k-means++: ``[G, k]`` states to start from, or None where the kernel cannot be had.

    Args:
        table: ``[G, L, L]`` squared distances, 0 to padding.
        weight: ``[G, L]`` 1, and 0 on padding.
        draws: ``[k, G, trials]`` uniform numbers; the trials must be a power of 2.
    """
    kernels = triton_kernels("clustering_triton")
    if kernels is None:
        return None
    k, sets, trials = draws.shape
    length = weight.shape[1]
    picks = torch.empty(sets, k, dtype=torch.int64, device=table.device)
    room = max(16, 1 << (length - 1).bit_length())
    inputs = (part.contiguous() for part in (table, weight, draws))
    kernels.plus_plus[(sets,)](*inputs, picks, length, sets, k, trials, room, num_warps=min(32, max(4, room // 64)))
    return picks
