"""Kernels in Triton, where it works."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import torch


def triton_kernels(module: str) -> Any:
    """A module of kernels, or None: then the calls of torch that they stand for do the same, with more waiting."""
    return import_module(f"mmrs.functional.{module}") if _triton_works() else None


@cache
def _triton_works() -> bool:
    """Whether there is Triton (which torch brings along on Linux) and a compiler for it to use: told by trying."""
    try:
        from mmrs.functional.clustering_triton import plus_plus  # noqa: PLC0415
    except ImportError:
        return False
    try:
        one = torch.ones(1, 1, device="cuda")
        picks = torch.empty(1, 1, dtype=torch.int64, device="cuda")
        plus_plus[(1,)](one, one, one, picks, 1, 1, 1, 1, 16, num_warps=4)
    except Exception as error:  # whatever is missing there
        warnings.warn(f"Triton does not work here ({error!r}): work on the GPU takes longer.", stacklevel=3)
        return False
    return True
