"""Typed decorators for numba, and the random numbers of all compiled code.

numba takes a while to import, so the modules with compiled code are imported where they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., object])
prange: Any = numba.prange
STRIDE = np.uint64(0x9E3779B97F4A7C15)
"""Increment of the state of a splitmix64 stream per draw."""
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U27, _U30, _U31, _U32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


def jit(function: F) -> F:
    """Compile on the first call; the machine code is cached beside the source for later processes."""
    # error_model="numpy": divisions do not check for zero; callers keep divisors positive.
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def parallel_jit(function: F) -> F:
    """As `jit`, with `prange` loops distributed over the cores."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy", parallel=True)(function))


@jit
def splitmix64(z: Any) -> Any:
    """64 random bits of the splitmix64 stream whose state is `z`; `rooms.maps.splitmix64` is the same in Python."""
    z = (z ^ (z >> _U30)) * _MIX_1
    z = (z ^ (z >> _U27)) * _MIX_2
    return z ^ (z >> _U31)


@jit
def below(bits: Any, n: Any) -> Any:
    """An integer in [0, n) from 64 random bits."""
    return np.int64((bits >> _U32) * np.uint64(n) >> _U32)
