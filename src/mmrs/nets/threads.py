"""The threads of the library behind NumPy's products, which knows nothing of torch's."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

import torch
from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all that is loaded, which takes a while


def torch_threads() -> AbstractContextManager[object]:
    """Inside, NumPy's products take no more threads than torch was given.

    Left alone they take every core, for networks so small that one is faster, and where other runs need the others.
    """
    limited: AbstractContextManager[object] = _libraries().limit(limits=torch.get_num_threads(), user_api="blas")
    return limited
