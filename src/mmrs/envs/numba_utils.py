"""numba behind one typed decorator, and the random stream of all compiled code.

The optional extra is asked for where compiled code is first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from mmrs.errors import MissingExtraError

try:
    import numba
except ImportError as error:
    raise MissingExtraError("numba", "maze") from error

F = TypeVar("F", bound=Callable[..., object])
prange: Any = numba.prange
STRIDE = np.uint64(0x9E3779B97F4A7C15)
"""How far the state of a splitmix64 stream moves for each draw."""
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U27, _U30, _U31 = np.uint64(27), np.uint64(30), np.uint64(31)


def jit(function: F) -> F:
    """Compile on the first call and keep the machine code beside the source for later processes."""
    # error_model="numpy": a division never checks for zero; callers keep divisors positive.
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def parallel_jit(function: F) -> F:
    """As `jit`, with `prange` loops spread over the cores."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy", parallel=True)(function))


@jit
def mix(z: Any) -> Any:
    """The 64 random bits of a splitmix64 stream whose state is `z`."""
    z = (z ^ (z >> _U30)) * _MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)
