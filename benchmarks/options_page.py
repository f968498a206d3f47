"""docs/options.md: every option of `mmrs train` and of each reward, from the configurations.

`python -m benchmarks.options_page` writes the page; `tests/test_docs.py` compares it with the code.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from mmrs.bonus_flags import flag_of
from mmrs.cli import TrainCommand
from mmrs.fields import Range, field_types, range_of
from mmrs.listing import describe
from mmrs.rewards import REWARDS

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
HEAD = """# Options of `mmrs train`

This page is generated from the configurations by `python -m benchmarks.options_page`; do not edit it by hand.
`mmrs train --help` shows the same options, with the defaults of the environment and the reward that stand before it:
`mmrs train --env ALE/Alien-v5 --bonus rnd --help`. `mmrs list presets` shows in what the presets differ from the
defaults of this page. Whole numbers may be written as `1e6` or `1_000_000`. An option of the type bool is switched on
by its name, as in `--bonus.center`, and off by `no-` before the last part, as in `--bonus.no-center`.
"""
REWARDS_HEAD = """
## Options of the rewards

`mmrs train` takes them as the flags below once `--bonus` names the reward, or as `--bonus.options name=value`. In
Python they are keywords: `mmrs.make("rnd", observation_space, action_space, learning_rate=1e-4)`. Each reward has
defaults for `--bonus.weight`, `--bonus.scale` and `--bonus.center` of its own. [rewards.md](rewards.md) explains the
rewards.
"""
TABLE = "\n| option | type | default | range | meaning |\n|---|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD, "\n## The run\n", TABLE, *_rows(TrainCommand)]
    for name in ("env", "bonus", "ppo", "mixing"):
        kind = field_types(TrainCommand)[name]
        parts += [f"\n## `--{name}`: {_about(kind)}\n", TABLE, *_rows(kind, f"{name}.")]
    parts.append(REWARDS_HEAD)
    for name, entry in own_rewards():
        weight = f"`--bonus.weight {entry.weight:g} --bonus.scale {entry.scale}`"
        center = "`--bonus.center`" if entry.center else "`--bonus.no-center`"
        text = textwrap.fill(describe(entry.factory), 120)
        parts += [f"\n### `{name}`\n\n{text}\n\nDefaults of the bonus: {weight} {center}.\n", TABLE]
        if entry.presets:
            named = ", ".join(f"`{preset}`" for preset in entry.presets)
            parts.append(f"| `--bonus.preset` | str | `default` | | Values to start from: {named}. |\n")
        parts += _rows(entry.config, flags={option.name: flag_of(option.name) for option in fields(entry.config)})
    return "".join(parts)


def own_rewards() -> Iterator[tuple[str, Any]]:
    """The package's own rewards: a process may have registered others."""
    for name, entry in REWARDS.items():
        if entry.config.__module__.startswith("mmrs.rewards."):
            yield name, entry


def _rows(kind: type, prefix: str = "", flags: dict[str, str] | None = None) -> Iterator[str]:
    hints, texts = field_types(kind), _helps(kind)
    for option in fields(kind):
        hint = hints[option.name]
        if is_dataclass(hint):
            continue  # a section of its own
        flag = (flags or {}).get(option.name) or _flag(option.name, hint, prefix)
        allowed = range_of(hint)
        within = str(allowed) if allowed not in (None, Range()) else ""
        text = " ".join(texts[option.name].split()).replace("|", "\\|")
        yield f"| {flag if '`' in flag else f'`{flag}`'} | {_type(hint)} | {_default(option)} | {within} | {text} |\n"


def _flag(name: str, hint: Any, prefix: str) -> str:
    """The flag of a field, and its short forms."""
    given = [part for part in (get_args(hint)[1:] if get_origin(hint) is Annotated else ()) if hasattr(part, "aliases")]
    plain = next((part.name for part in given if part.name), name.replace("_", "-"))
    names = [f"--{prefix}{plain}", *(alias for part in given for alias in part.aliases or ())]
    return ", ".join(f"`{one}`" for one in names)


def _type(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(parts[0])
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in parts)
    if origin is tuple:
        return f"any number of {_type(parts[0])}" if parts[-1] is Ellipsis else ", ".join(map(_type, parts))
    if origin is dict:
        return "JSON"
    return "None" if hint is type(None) else "path" if hint is Path else hint.__name__


def _default(option: Field[Any]) -> str:
    value = option.default if option.default is not MISSING else option.default_factory()  # type: ignore[misc]
    if value in ("", (), {}):
        return "empty"
    return f"`{value}`"


@cache
def _helps(kind: type) -> dict[str, str]:
    """The docstring of each field, those of base classes included."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not is_dataclass(base):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(node, ast.ClassDef)
        for field, after in zip(node.body, node.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(field.target, ast.Name):
                texts[field.target.id] = str(ast.literal_eval(after.value))
    return texts


def _about(kind: type) -> str:
    text = " ".join((inspect.getdoc(kind) or "").split())
    return text.partition(". ")[0].rstrip(".").removeprefix("The ")


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"written: {PAGE}")
