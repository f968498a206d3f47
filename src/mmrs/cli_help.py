"""Help of the command line in plain sentences: the docstrings of fields, their tags against the paper spelled out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import is_dataclass, replace

from tyro.constructors import ConstructorRegistry, StructConstructorSpec, StructFieldSpec, StructTypeInfo

_TAG = re.compile(r"# (Deviation|Unstated)\b")
_WORDS = {"Deviation": "Unlike the paper", "Unstated": "Not stated in the paper"}


def in_plain_words(text: str) -> str:
    """A docstring as a user reads it: what a tag means instead of the tag, and no breaks where lines of code end."""
    return " ".join(_TAG.sub(lambda tag: _WORDS[tag[1]], text).split())


def plain_help() -> ConstructorRegistry:
    """Within it `tyro.cli` reads dataclasses as ever, but puts their help in plain words."""
    registry = ConstructorRegistry()
    asked: list[StructTypeInfo] = []

    @registry.struct_rule
    def read(info: StructTypeInfo) -> StructConstructorSpec | None:
        if asked or not is_dataclass(info.type):
            return None  # left to tyro's own rules, which also answer the question asked below
        asked.append(info)
        try:
            spec = ConstructorRegistry.get_struct_spec(info)
        finally:
            asked.pop()
        if not isinstance(spec, StructConstructorSpec):
            return None
        return replace(spec, fields=tuple(_with_plain_help(field) for field in spec.fields))

    return registry


def _with_plain_help(field: StructFieldSpec) -> StructFieldSpec:
    def text(help_text: str | Callable[[], str | None] | None = field.helptext) -> str | None:
        words = help_text() if callable(help_text) else help_text
        return None if words is None else in_plain_words(words)

    return replace(field, helptext=text)  # as a function: docstrings are parsed only where help is shown
