"""Checks of reward options when the reward is made, so that a wrong value is not found a million steps later."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mmrs.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")


def with_options(owner: str, config: C, options: dict[str, Any]) -> C:
    """The configuration with some fields replaced; refuses unknown names, and wrong values of choices and flags."""
    require_known(owner, options, [field.name for field in fields(config)])
    config = replace(config, **options)
    for name, kind in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if get_origin(kind) is Literal:
            require_choice(owner, get_args(kind), **{name: value})
        elif kind is bool:
            require_flags(owner, **{name: value})
    return config


def require_known(owner: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that do not exist."""
    for name in set(options) - set(known):
        raise InputError(f"{owner} has no option {name!r}. {did_you_mean(name, known)}")


def require_finite(owner: str, **values: Any) -> None:
    """Refuse what is not a finite number."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise InputError(f"{owner}({name}={value!r}): expected a finite number.")


def require_counts(owner: str, *, minimum: int = 1, **counts: Any) -> None:
    """Refuse what is not a whole number of at least `minimum`."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
            raise InputError(f"{owner}({name}={value!r}): expected a whole number of at least {minimum}.")


def require_choice(owner: str, allowed: tuple[str, ...], **choices: Any) -> None:
    """Refuse what is not one of the allowed values."""
    for name, value in choices.items():
        if value not in allowed:
            raise InputError(f"{owner}({name}={value!r}): expected one of {', '.join(map(repr, allowed))}.")


def require_flags(owner: str, **flags: Any) -> None:
    """Refuse what is neither True nor False: any string, even "false", would count as true."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise InputError(f"{owner}({name}={value!r}): expected True or False.")
