"""The templates of the pages, loaded one way: what runs are called is escaped, and what is missing is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mmrs.errors import MissingExtraError


def load_template(name: str, **filters: Callable[..., Any]) -> Any:
    """A template of this package, with filters of the page's own."""
    try:
        import jinja2  # noqa: PLC0415 (an optional extra)
    except ImportError as error:
        raise MissingExtraError("jinja2", "report") from error
    loader = jinja2.PackageLoader("mmrs.report", "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= filters
    return environment.get_template(name)
