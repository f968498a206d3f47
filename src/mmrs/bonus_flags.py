"""Flags of `mmrs train` for the options of the chosen reward (`--bonus.latent-dim 64`), and ranges in its help.

Tyro makes a command line from a dataclass. This module makes that dataclass: the configuration of a run with the
options of one reward beside the fields of `bonus`. What is given becomes a part of `bonus.options`, the form that
`config.json` holds.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import tyro

from mmrs.errors import InputError
from mmrs.fields import Range, field_types, range_of
from mmrs.rewards.registry import RewardEntry, configure, find, reward_names
from mmrs.runs.build import option_text, parse_options
from mmrs.runs.config import BonusConfig

SCALARS = (bool, int, float, str, type(None))
OWN = {option.name for option in fields(BonusConfig)}
"""Fields of `bonus` itself. An option of a reward with such a name gets the prefix "option-"."""


def with_flags(command: Any, arguments: Sequence[str]) -> Any:
    """The command with flags for the options of its bonus; `without_flags` undoes it.

    Args:
        command: configuration with the defaults of the command line, `bonus` with the name of the reward.
        arguments: command line; names the preset that the defaults in the help are from.
    """
    kinds: dict[type, type] = {}
    for section in (*_nested(command), command):
        extra = _reward_field(command.bonus, arguments) if isinstance(section, BonusConfig) else []
        kinds[type(section)] = _shown(type(section), kinds, extra)
    return _converted(command, kinds)


def without_flags(command: Any, arguments: Sequence[str]) -> Any:
    """The command with its plain types; flags that were given are appended to `bonus.options`."""
    plain = _plain(command)
    reward = getattr(command.bonus, "reward", None)
    names = [] if reward is None else [option.name for option in fields(reward)]
    given = _given(arguments, names)
    options = [f"{name}={option_text(getattr(reward, name))}" for name in names if name in given]
    # A later option wins over an earlier one of the same name.
    kept = [option for option in plain.bonus.options if option.partition("=")[0] not in given]
    return replace(plain, bonus=replace(plain.bonus, options=(*kept, *options)))


def flag_of(option: str) -> str:
    """The flag of a reward's option."""
    prefix = "option-" if option in OWN else ""
    return f"--bonus.{prefix}{option.replace('_', '-')}"


def _given(arguments: Sequence[str], names: Sequence[str]) -> set[str]:
    """Names of the options whose flag is on the command line, also as --bonus.no-NAME."""
    used = {argument.partition("=")[0].replace("_", "-") for argument in arguments}
    forms = {name: flag_of(name) for name in names}
    return {name for name, flag in forms.items() if used & {flag, flag.replace("--bonus.", "--bonus.no-", 1)}}


# --- the dataclass of the command line -----------------------------------------------------------------------------


def _nested(config: Any) -> list[Any]:
    """Configurations inside a configuration."""
    return [value for value in (getattr(config, f.name) for f in fields(config)) if is_dataclass(value)]


def _shown(kind: type, kinds: dict[type, type], extra: Sequence[tuple[str, Any, Any]] = ()) -> type:
    """A subclass of a configuration with ranges in its help; help texts are found in the source of `kind`."""
    hints = field_types(kind)
    shown = [
        (option.name, kinds.get(hints[option.name], _with_range(hints[option.name])), _copy(option))
        for option in fields(kind)
    ]
    return _made(kind.__name__, [*shown, *extra], kind, kind.__doc__)


def _made(name: str, options: Sequence[tuple[str, Any, Any]], base: type | None, about: str | None) -> type:
    bases = (base,) if base else ()
    return make_dataclass(name, options, bases=bases, namespace={"__doc__": about, "plain": base}, frozen=True)


def _copy(option: Field[Any]) -> Any:
    """A new field with the default of another: dataclasses change the field that they are given."""
    if option.default is not MISSING:
        return field(default=option.default, kw_only=True)
    return field(default_factory=option.default_factory, kw_only=True)


def _with_range(hint: Any, **named: Any) -> Any:
    allowed = range_of(hint)
    if allowed is not None and allowed != Range():
        named["metavar"] = f"{_kinds(get_args(hint)[0])} {_edges(allowed)}"
    return Annotated[hint, tyro.conf.arg(**named)] if named else hint


def _kinds(hint: Any) -> str:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    names = ["{None}" if part is type(None) else part.__name__.upper() for part in parts]
    return "|".join(sorted(names, reverse=True))


def _edges(allowed: Range) -> str:
    low = f"{'>' if allowed.open_low else '>='} {allowed.low:g}" if allowed.low > -float("inf") else ""
    high = f"{'<' if allowed.open_high else '<='} {allowed.high:g}" if allowed.high < float("inf") else ""
    return ", ".join(filter(None, (low, high)))


def _converted(config: Any, kinds: dict[type, type]) -> Any:
    values = {option.name: getattr(config, option.name) for option in fields(config)}
    nested = {name: _converted(value, kinds) for name, value in values.items() if type(value) in kinds}
    return kinds[type(config)](**{**values, **nested})


def _plain(config: Any) -> Any:
    kind = config.plain
    values = {option.name: getattr(config, option.name) for option in fields(kind)}
    return kind(**{name: _plain(value) if hasattr(value, "plain") else value for name, value in values.items()})


# --- options of one reward ------------------------------------------------------------------------------------------


def _reward_field(bonus: BonusConfig, arguments: Sequence[str]) -> list[tuple[str, Any, Any]]:
    """The field of the options, as for `make_dataclass`; none without a reward of this name."""
    if bonus.name not in reward_names():
        return []
    entry = find(bonus.name)
    options = parse_options(bonus.options)
    preset = _preset_in(arguments) if entry.presets else None
    if preset in entry.presets:
        options["preset"] = preset
    try:
        config = configure(bonus.name, options)
    except InputError:  # an option that must be given: no defaults to show
        return []
    kind = _flags_of(bonus.name, entry, config)
    default = kind(**{f.name: getattr(config, f.name, options.get("preset", "default")) for f in fields(kind)})
    return [("reward", Annotated[kind, tyro.conf.arg(name="")], field(default=default, kw_only=True))]


def _flags_of(name: str, entry: RewardEntry, config: Any) -> type:
    hints = {key: hint for key, hint in field_types(entry.config).items() if _is_readable(hint)}
    shown = [
        (key, _with_range(hint, **({"name": f"option-{key.replace('_', '-')}"} if key in OWN else {})))
        for key, hint in hints.items()
    ]
    options = [(key, hint, field(default=getattr(config, key), kw_only=True)) for key, hint in shown]
    if entry.presets:
        about = "Values to start from; other options replace single ones."
        names: Any = Literal[tuple(entry.presets)]
        choice: Any = Annotated[names, tyro.conf.arg(help=about)]
        options.insert(0, ("preset", choice, field(default="default", kw_only=True)))
    # Tyro finds the help of inherited fields in the source of their class.
    base = entry.config if hints.keys() == field_types(entry.config).keys() else None
    return _made(f"{name}_flags", options, base, f"Options of the reward {name}.")


def _is_readable(hint: Any) -> bool:
    """Whether tyro can read a value of this type; other options are given as `--bonus.options name=value`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _is_readable(arguments[0])
    if origin in (Union, types.UnionType, tuple):
        return all(part is Ellipsis or _is_readable(part) for part in arguments)
    return origin is Literal or hint in SCALARS


def _preset_in(arguments: Sequence[str]) -> str | None:
    flag = "--bonus.preset"
    for argument, following in zip(arguments, (*arguments[1:], ""), strict=True):
        if argument == flag:
            return following
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
    return None
