"""Configurations as JSON and back, strictly: an unknown key, a missing key or another type is an error."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from mmrs.errors import InputError, did_you_mean

T = TypeVar("T")
RESUME_MAY_DIFFER = {"root", "name", "device", "threads", "quiet", "wandb", "imports", "env.threads", "env.groups"}
"""Fields that may differ between two attempts at a run: its results do not depend on them."""


def to_json(config: Any) -> Any:
    """A frozen dataclass of dataclasses, tuples, paths, numbers and strings as data for `json.dumps`."""
    if dataclasses.is_dataclass(config):
        return {field.name: to_json(getattr(config, field.name)) for field in dataclasses.fields(config)}
    if isinstance(config, tuple | list):
        return [to_json(item) for item in config]
    if isinstance(config, dict):
        return {key: to_json(item) for key, item in config.items()}
    return str(config) if isinstance(config, Path) else config


def from_json(kind: type[T], data: Any, path: str = "config") -> T:
    """The configuration that `to_json` wrote.

    Raises:
        InputError: where `data` is not exactly of the form of `kind`; says where and what was expected.
    """
    return typing.cast(T, _build(kind, data, path))


def require_same(saved: Any, wanted: Any, path: object) -> None:
    """Refuse to continue a run as another one; `saved` and `wanted` are configurations of one class."""
    differences = [
        f"{key} is {old!r} there and {new!r} here"
        for key, old, new in _differences(to_json(saved), to_json(wanted))
        if key not in RESUME_MAY_DIFFER
    ]
    if differences:
        raise InputError(
            f"{path} holds another run: {'; '.join(differences)}. Use the same settings, or choose another folder."
        )


def require_same_bonus(saved: dict[str, Any], now: dict[str, Any], path: object) -> None:
    """Refuse to continue a run whose bonus had other defaults than in this version; new options are allowed."""
    changed = [
        f"{key} was {old!r} and is {repr(now[key]) if key in now else 'gone'} now"
        for key, old in saved.items()
        if key not in now or now[key] != old
    ]
    if changed:
        raise InputError(
            f"the bonus of {path} would not be the same in this version of mmrs: {'; '.join(changed)}. "
            "Continue with the version that started it (attempts.jsonl names it), or train the run again."
        )


def _build(kind: Any, data: Any, path: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, data, path)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _build(arguments[0], data, path)
    if origin in (typing.Union, types.UnionType):
        return _build_union(arguments, data, path)
    if origin is typing.Literal:
        return data if data in arguments else _refuse(path, data, f"one of {', '.join(map(repr, arguments))}")
    if origin is tuple:
        return _build_tuple(arguments, data, path)
    return _build_scalar(origin or kind, data, path)


def _build_dataclass(kind: Any, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        return _refuse(path, data, "an object")
    hints = typing.get_type_hints(kind, include_extras=True)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    for name in data.keys() - set(names):
        raise InputError(f"{path} has the unknown key {name!r}. {did_you_mean(str(name), names)}")
    missing = [name for name in names if name not in data]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}. Was it written by another version of mmrs?")
    return kind(**{name: _build(hints[name], data[name], f"{path}.{name}") for name in names})


def _build_union(kinds: tuple[Any, ...], data: Any, path: str) -> Any:
    for kind in kinds:
        try:
            return _build(kind, data, path)
        except InputError:
            continue
    names = " or ".join(str(getattr(kind, "__name__", kind)) for kind in kinds)
    return _refuse(path, data, names)


def _build_tuple(kinds: tuple[Any, ...], data: Any, path: str) -> Any:
    if not isinstance(data, list):
        return _refuse(path, data, "a list")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = kinds[:1] * len(data)
    if len(kinds) != len(data):
        return _refuse(path, data, f"a list of {len(kinds)}")
    return tuple(_build(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(zip(kinds, data, strict=True)))


def _build_scalar(kind: Any, data: Any, path: str) -> Any:
    if kind is type(None):
        return None if data is None else _refuse(path, data, "null")
    if kind is Path:
        return Path(data) if isinstance(data, str) else _refuse(path, data, "a path")
    if kind is dict:  # with keys of text, as JSON has them
        return dict(data) if isinstance(data, dict) else _refuse(path, data, "an object")
    if kind is float and type(data) is int:
        return float(data)
    if kind in (bool, int, float, str):
        return data if type(data) is kind else _refuse(path, data, f"of type {kind.__name__}")
    raise InputError(f"{path} is of the kind {kind}, which a configuration file cannot hold.")


def _refuse(path: str, data: Any, expected: str) -> Any:
    raise InputError(f"{path} is {str(data)[:80]!r}, expected {expected}.")


def _differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield path, old, new
