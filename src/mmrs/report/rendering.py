"""What every figure of the package shares: matplotlib without a screen, one look, PNG and SVG of each."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mmrs.errors import MissingExtraError
from mmrs.storage.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#c2571a", "#1f6fb4", "#3a8f5c", "#8a5aa8", "#8c6d31", "#b23a62", "#4c4c4c")
"""Told apart by colour-blind readers in this order; the first two belong to the baseline and to JFI."""

_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """An empty figure that belongs to no window, in inches; without a layout its axes are placed by hand."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an optional extra)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report") from error
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def plain(axes: Any) -> None:
    """Take away the frame's right and top edge and lay a light grid under the data."""
    axes.spines[["right", "top"]].set_visible(False)
    axes.grid(True, color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)


def save_figure(figure: Figure, folder: Path, name: str, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write `name`.png and `name`.svg, or other kinds, into the folder, each whole or not at all."""
    from matplotlib import rc_context  # noqa: PLC0415

    paths = []
    # A fixed salt and no date: the same data give the same SVG, byte for byte.
    with rc_context({"svg.hashsalt": "mmrs", "svg.fonttype": "none"}):
        for kind in kinds:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=160, metadata=_UNDATED.get(kind), facecolor="white")
            paths.append(write_whole(folder / f"{name}.{kind}", buffer.getvalue()))
    return paths


def load_template(name: str, package: str = "mmrs.report", **filters: Callable[..., Any]) -> Any:
    """A template of a package, with filters of the page's own. Templates of `mmrs.report` can be included by all."""
    try:
        import jinja2  # noqa: PLC0415 (an optional extra)
    except ImportError as error:
        raise MissingExtraError("jinja2", "report") from error
    folders = [jinja2.PackageLoader(name, "templates") for name in (package, "mmrs.report")]
    loader = jinja2.ChoiceLoader(folders)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= filters
    return environment.get_template(name)
