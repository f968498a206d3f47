"""Options of rewards: configurations, and checks when a reward is made, not a million steps later."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from mmrs.errors import InputError, did_you_mean
from mmrs.fields import check_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

C = TypeVar("C", bound="DataclassInstance")


def configured(owner: str, kind: type[C], config: C | None, options: dict[str, Any]) -> C:
    """The configuration with some fields replaced, checked.

    Args:
        owner: name of the reward, for messages.
        kind: class of the configuration. Its method `check`, if there is one, compares fields with each other.
        config: configuration to start from; None: the defaults.
        options: fields to replace.
    """
    if config is not None and not isinstance(config, kind):
        raise InputError(f"{owner}: config is of type {type(config).__name__}, expected {kind.__name__}.")
    known = fields(kind)
    require_known(owner, options, [field.name for field in known])
    needed = [f.name for f in known if f.init and f.default is MISSING and f.default_factory is MISSING]
    missing = [name for name in needed if name not in options]
    if config is None and missing:
        raise InputError(f"{owner} needs the option {missing[0]!r}, which has no default.")
    config = kind(**options) if config is None else replace(config, **options)
    check_fields(config, owner)
    if hasattr(config, "check"):
        config.check()
    return config


def require_known(owner: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that do not exist."""
    for name in sorted(set(options) - set(known)):
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
