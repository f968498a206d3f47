"""numba behind one typed decorator: the optional extra is asked for where compiled code is first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from mmrs.errors import MissingExtraError

try:
    import numba
except ImportError as error:
    raise MissingExtraError("numba", "maze") from error

F = TypeVar("F", bound=Callable[..., object])
prange: Any = numba.prange


def jit(function: F) -> F:
    """Compile on the first call and keep the machine code beside the source for later processes."""
    # error_model="numpy": a division never checks for zero; callers keep divisors positive.
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def parallel_jit(function: F) -> F:
    """As `jit`, with `prange` loops spread over the cores."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy", parallel=True)(function))
