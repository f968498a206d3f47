"""Types and ranges at the fields of a configuration."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from mmrs.errors import InputError
from mmrs.fields import COUNT, FINITE, POSITIVE, SHARE, Range, check_fields, range_of


@dataclass(frozen=True)
class Inner:
    share: Annotated[float, SHARE] = 0.5


@dataclass(frozen=True)
class Outer:
    count: Annotated[int, COUNT] = 3
    plain: int = 0
    any_float: float = 0.0
    finite: Annotated[float, FINITE] = 0.0
    unset: Annotated[float | None, POSITIVE] = None
    flag: bool = False
    text: str = ""
    choice: Literal["a", "b", 1] = "a"
    names: tuple[str, ...] = ()
    pair: tuple[int, float] = (1, 2.0)
    sizes: tuple[Annotated[int, COUNT], ...] = ()
    path: Path = Path()
    table: dict[str, int] = field(default_factory=dict)
    whatever: Any = None
    inner: Inner = field(default_factory=Inner)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "o.count is 0, expected a whole number, at least 1."),
        ({"count": 2.0}, "o.count is 2.0, expected a whole number, at least 1."),
        ({"count": True}, "o.count is True, expected a whole number, at least 1."),
        ({"plain": "3"}, "o.plain is '3', expected a whole number."),
        ({"any_float": None}, "o.any_float is None, expected a number."),
        ({"finite": math.inf}, "o.finite is inf, expected a finite number."),
        ({"unset": 0.0}, "o.unset is 0.0, expected a finite number, above 0, or None."),
        ({"flag": "false"}, "o.flag is 'false', expected True or False."),
        ({"flag": 0}, "o.flag is 0, expected True or False."),
        ({"text": 3}, "o.text is 3, expected text."),
        ({"choice": "c"}, "o.choice is 'c', expected one of 'a', 'b', 1."),
        ({"choice": True}, "o.choice is True, expected one of 'a', 'b', 1."),
        ({"choice": np.zeros(2)}, "o.choice is array([0., 0.]), expected one of 'a', 'b', 1."),
        ({"names": "ab"}, "o.names is 'ab', expected a tuple."),
        ({"names": ("a", 3)}, "o.names is ('a', 3), expected a tuple with text in each place."),
        ({"pair": (1,)}, "o.pair is (1,), expected a tuple of 2."),
        ({"sizes": (0,)}, "o.sizes is (0,), expected a tuple with a whole number, at least 1 in each place."),
        ({"path": 3}, "o.path is 3, expected a path."),
        ({"table": []}, "o.table is [], expected dict."),
        ({"inner": None}, "o.inner is None, expected Inner."),
        ({"inner": Inner(2.0)}, "o.inner.share is 2.0, expected a finite number, at least 0 and at most 1."),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_expected(values, message):
    with pytest.raises(InputError) as error:
        check_fields(replace(Outer(), **values), "o")
    assert str(error.value) == message


def test_what_fits_is_taken():
    check_fields(Outer())
    check_fields(
        Outer(
            count=np.int64(2),
            any_float=math.nan,
            finite=1,
            unset=np.float32(0.5),
            choice=1,
            names=("x",),
            pair=(1, 2),
            sizes=(1, 2),
            path="here",
            table={"a": 1},
            whatever=object(),
            inner=Inner(1.0),
        )
    )


def test_ranges_are_found_and_say_their_edges():
    assert range_of(Annotated[int, "text", COUNT]) is COUNT
    assert range_of(int) is None
    assert str(Range(0, 5000, open_low=True, open_high=True)) == "above 0 and below 5,000"
    assert 5000 in Range(0, 5000) and 5000 not in Range(0, 5000, open_high=True)
    assert 0.0 in Range(0) and 0.0 not in Range(0, open_low=True)
    assert not [value for value in (math.nan, math.inf, -math.inf) if value in Range()]
