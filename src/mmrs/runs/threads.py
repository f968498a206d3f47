"""How many threads a run computes with: torch's, and those of the library behind NumPy's products."""

from __future__ import annotations

import torch
from threadpoolctl import threadpool_limits


def use_threads(number: int) -> None:
    """Compute with this many threads from now on, in this process.

    NumPy's library would take every core for products as small as those of a policy: slower than one thread where
    several runs share a machine, and another order of sums.
    """
    torch.set_num_threads(number)
    threadpool_limits(number, user_api="blas")
