"""Checks of options at the door: a wrong number must not surface as a strange reward a million steps later."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from mmrs.errors import InputError


def require_finite(owner: str, **numbers: Any) -> None:
    """Refuse what is not a finite number."""
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise InputError(f"{owner}({name}={value!r}): expected a finite number.")


def require_counts(owner: str, *, least: int = 1, **counts: Any) -> None:
    """Refuse what is not a whole number from `least`."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise InputError(f"{owner}({name}={value!r}): expected a whole number from {least}.")


def require_choice(owner: str, allowed: tuple[str, ...], **choices: Any) -> None:
    """Refuse what is not one of the allowed words."""
    for name, value in choices.items():
        if value not in allowed:
            raise InputError(f"{owner}({name}={value!r}): expected one of {', '.join(map(repr, allowed))}.")


def require_flags(owner: str, **flags: Any) -> None:
    """Refuse what is neither True nor False: any text, "false" too, would count as true."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InputError(f"{owner}({name}={value!r}): expected True or False.")
