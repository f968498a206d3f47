"""Types and ranges of configurations, written at the field and checked by name.

    @dataclass(frozen=True)
    class Options:
        k: Annotated[int, Range(1)] = 10

A number without a range may have any value of its type, infinity included. `Range()` asks for a finite one.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from mmrs.errors import InputError


@dataclass(frozen=True)
class Range:
    """The values that a number may have; both ends included unless they are open."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, Integral) and not math.isfinite(value):  # a configuration file could not hold it
            return False
        above: bool = value > self.low if self.open_low else value >= self.low
        below: bool = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        edges = []
        if self.low > -math.inf:
            edges.append(f"{'above' if self.open_low else 'at least'} {self.low:,}")
        if self.high < math.inf:
            edges.append(f"{'below' if self.open_high else 'at most'} {self.high:,}")
        return " and ".join(edges)


FINITE = Range()
COUNT = Range(1)
POSITIVE = Range(0, open_low=True)
NOT_NEGATIVE = Range(0)
SHARE = Range(0, 1)


def range_of(hint: Any) -> Range | None:
    """The range in an annotation, or None."""
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((extra for extra in extras if isinstance(extra, Range)), None)


def field_types(kind: Any) -> dict[str, Any]:
    """Annotations of a dataclass by name of the field, with their ranges."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def check_fields(config: Any, owner: str = "") -> None:
    """Refuse values of another type or out of range.

    Args:
        config: a frozen dataclass, with others inside it.
        owner: what precedes the name of a field in the message; empty: nothing.

    Raises:
        InputError: names the field, its value and what was expected.
    """
    for path, value, expected in _problems(config, f"{owner}." if owner else ""):
        raise InputError(f"{path} is {value!r}, expected {expected}.")


def _problems(config: Any, prefix: str) -> Iterator[tuple[str, Any, str]]:
    for name, hint in field_types(type(config)).items():
        value = getattr(config, name)
        expected = _expected(hint, value)
        if expected is not None:
            yield prefix + name, value, expected
        elif is_dataclass(value) and not isinstance(value, type):
            yield from _problems(value, f"{prefix}{name}.")


def _expected(hint: Any, value: Any, allowed: Range | None = None) -> str | None:
    """What the annotation asks for if the value is something else, else None."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _expected(arguments[0], value, range_of(hint) or allowed)
    if origin in (Union, types.UnionType):
        texts = [_expected(kind, value, allowed) for kind in arguments]
        return None if None in texts else ", or ".join(map(str, texts))
    if origin is Literal:
        known = any(type(value) is type(choice) and value == choice for choice in arguments)
        return None if known else f"one of {', '.join(map(repr, arguments))}"
    if origin is tuple:
        return _expected_items(arguments, value, allowed)
    if hint in (int, float) and hint is not bool:
        return _expected_number(hint, value, allowed)
    return _expected_type(hint if origin is None else origin, value)


def _expected_number(kind: type, value: Any, allowed: Range | None) -> str | None:
    whole = kind is int
    number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if number and (allowed is None or value in allowed):
        return None
    text = "a whole number" if whole else "a number" if allowed is None else "a finite number"
    return f"{text}, {allowed}" if allowed is not None and str(allowed) else text


def _expected_items(kinds: tuple[Any, ...], value: Any, allowed: Range | None) -> str | None:
    if not isinstance(value, tuple | list):
        return "a tuple"
    if kinds[1:] == (Ellipsis,):
        kinds = kinds[:1] * len(value)
    if len(kinds) != len(value):
        return f"a tuple of {len(kinds)}"
    texts = (_expected(kind, item, allowed) for kind, item in zip(kinds, value, strict=True))
    return next((f"a tuple with {text} in each place" for text in texts if text is not None), None)


def _expected_type(kind: Any, value: Any) -> str | None:
    if not isinstance(kind, type):  # Any, type variables, protocols of the user
        return None
    names = {bool: "True or False", str: "text", type(None): "None", Path: "a path"}
    try:
        fits = isinstance(value, (str, Path) if kind is Path else kind)
    except TypeError:  # a type that isinstance cannot ask for
        return None
    return None if fits else names.get(kind, kind.__name__)
