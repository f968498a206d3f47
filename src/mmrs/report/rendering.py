"""What all figures and pages share: one palette, matplotlib figures without a screen, and templates."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mmrs.errors import MissingExtraError
from mmrs.storage.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = (
    *("#c2571a", "#1f6fb4", "#3a8f5c", "#8a5aa8", "#8c6d31", "#b23a62", "#4c4c4c"),
    *("#0f766e", "#6b7a12", "#3f45a8", "#7d3322", "#55758a", "#a0289a", "#4f8f1f"),
)
"""Line colors on a light ground. Color-blind readers can distinguish the first seven, best in this order."""
DARK_COLORS = (
    *("#f0914f", "#5fb0f5", "#67c795", "#c793e0", "#d1b062", "#ee84a6", "#b9bcc2"),
    *("#5fd3c8", "#bcc95a", "#9aa0ff", "#e0937f", "#9fc0d6", "#e986e4", "#9bd873"),
)
"""The same colors for a dark ground."""
_COLOR_OF = {
    "ppo": 0, "vanilla": 0, "jfi": 1, "mmrs": 2, "rnd": 3, "ride": 4, "re3": 5, "random_walk": 6, "mmrs-paper": 7,
    "landmarks": 8, "entropy": 9, "coverage": 10, "count_bonus": 11, "count_penalty": 12, "exp_decay": 13,
}  # fmt: skip

_UNDATED = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def method_colors(methods: Iterable[str]) -> dict[str, int]:
    """Index into `COLORS` for each method: a known method always has its own, others take what is left in order."""
    methods = tuple(methods)
    colors = {method: _COLOR_OF[method] for method in methods if method in _COLOR_OF}
    free = [index for index in range(len(COLORS)) if index not in colors.values()] or list(range(len(COLORS)))
    unknown = dict.fromkeys(method for method in methods if method not in _COLOR_OF)
    return colors | {method: free[number % len(free)] for number, method in enumerate(unknown)}


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """An empty figure without a window, sized in inches; without a layout its axes are placed by hand."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 (an optional extra)
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report") from error
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def style_axes(axes: Any) -> None:
    """Hide the frame's right and top edge and draw a light grid under the data."""
    axes.spines[["right", "top"]].set_visible(False)
    axes.grid(True, color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)


def save_figure(figure: Figure, folder: Path, name: str, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write `name`.png and `name`.svg, or other kinds, into the folder; each file is written atomically."""
    from matplotlib import rc_context  # noqa: PLC0415

    paths = []
    # A fixed salt and no date: the same data give the same SVG, byte for byte.
    with rc_context({"svg.hashsalt": "mmrs", "svg.fonttype": "none"}):
        for kind in kinds:
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=160, metadata=_UNDATED.get(kind), facecolor="white")
            paths.append(write_atomic(folder / f"{name}.{kind}", buffer.getvalue()))
    return paths


def load_template(name: str, package: str = "mmrs.report", **filters: Callable[..., Any]) -> Any:
    """A template of a package, with the page's own filters. It can include the templates of `mmrs.report`."""
    try:
        import jinja2  # noqa: PLC0415 (an optional extra)
    except ImportError as error:
        raise MissingExtraError("jinja2", "report") from error
    folders = [jinja2.PackageLoader(name, "templates") for name in (package, "mmrs.report")]
    loader = jinja2.ChoiceLoader(folders)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= filters
    environment.globals["colors"] = list(zip(COLORS, DARK_COLORS, strict=True))
    return environment.get_template(name)
