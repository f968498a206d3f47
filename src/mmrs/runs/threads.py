"""CPU threads and cores of a run."""

from __future__ import annotations

import os

import torch
from threadpoolctl import threadpool_limits


def set_num_threads(count: int) -> None:
    """Set the number of threads of torch and of the BLAS library behind NumPy, in this process.

    By default BLAS takes every core, even for products as small as those of a policy. That is slower than one thread
    where several runs share a machine, and it changes the order of sums.
    """
    torch.set_num_threads(count)
    threadpool_limits(count, user_api="blas")


def usable_cores() -> int:
    """Cores that this process may use where the system reports them (Linux), else cores of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
