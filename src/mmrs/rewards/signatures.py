"""The configuration of a custom reward, derived from the keyword-only parameters of its class or function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass, make_dataclass
from functools import partial
from typing import Any, NamedTuple, Optional, get_args, get_type_hints

HOST = ("seed", "config")
"""Parameters that are not options: the host passes them."""


class Options(NamedTuple):
    """What a factory takes."""

    config: type[Any]
    """Frozen dataclass of its options."""
    takes_config: bool
    """Whether it takes that dataclass as `config`."""
    takes_seed: bool
    open: bool
    """Whether it takes any keyword."""


@dataclass(frozen=True)
class NoOptions:
    """A reward without options."""


def options_of(name: str, factory: Callable[..., Any]) -> Options:
    """What a factory takes, by its signature. A parameter without annotation takes any value."""
    parameters = inspect.signature(factory).parameters
    hints = _hints(factory)
    open_ = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    takes_seed = open_ or "seed" in parameters
    config = _config_class(hints.get("config")) if "config" in parameters else None
    if config is not None:
        return Options(config, True, takes_seed, False)
    fixed = factory.keywords if isinstance(factory, partial) else {}
    options = [
        _as_field(p, hints.get(p.name, Any))
        for p in parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.name not in (*HOST, *fixed)
    ]
    kind = NoOptions if not options else make_dataclass(f"{name}_options", options, frozen=True, kw_only=True)
    if options:
        kind.__doc__ = f"Options of {name}."
    return Options(kind, False, takes_seed, open_)


def _hints(factory: Any) -> dict[str, Any]:
    """Annotations of the parameters; none if a name in them is unknown, as of a class in a function."""
    whole = factory.func if isinstance(factory, partial) else factory
    try:
        target: Any = inspect.getattr_static(whole, "__init__") if isinstance(whole, type) else whole
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError):
        return {}


def _config_class(hint: Any) -> type[Any] | None:
    """The dataclass in ``Options`` or ``Options | None``."""
    return next((kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and is_dataclass(kind)), None)


def _as_field(parameter: inspect.Parameter, hint: Any) -> Any:
    default = parameter.default
    if default is parameter.empty:
        return parameter.name, hint
    if default is None:  # `k: int = None` is common
        hint = Optional[hint]  # noqa: UP045 (a hint may be a string or no type)
    if type(default).__hash__ is None:  # a list, for example: dataclasses want a new one each time
        return parameter.name, hint, field(default_factory=lambda: default)
    return parameter.name, hint, field(default=default)
