"""Figures of `mmrs bounds`, drawn from what bounds.json holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmrs.report.rendering import COLORS, new_figure, save_figure, style_axes

Row = Mapping[str, Any]


def draw_bounds(result: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw `lemma1`, `lemma2` and `estimators` as PNG and SVG; returns the files written."""
    figures = {
        "lemma1": _lemma1(result["cells"], result["constants"]),
        "lemma2": _lemma2(result["cells"], result["as_written"]),
        "estimators": _estimators(result["cells"], result["rates"]),
    }
    return [path for name, figure in figures.items() for path in save_figure(figure, folder, name)]


def _select(cells: Sequence[Row], source: str, states: int | None = None) -> list[Row]:
    return [c for c in cells if c["source"] == source and states in (None, c["states"])]


def _pairs(cells: Sequence[Row], prefix: str) -> list[tuple[str, int]]:
    """The pairs (source, S) that occur, in order, of the sources that start with `prefix`."""
    return list(dict.fromkeys((c["source"], c["states"]) for c in cells if c["source"].startswith(prefix)))


def _two_panels() -> tuple[Any, Any, Any]:
    figure = new_figure(11, 4)
    return figure, *figure.subplots(1, 2)


def _finish(axes: Any, heading: str, fontsize: int = 8, **legend: Any) -> None:
    """Add the heading, the legend (where anything was drawn) and the common style."""
    axes.set_title(heading, fontsize=10)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=fontsize, **legend)
    style_axes(axes)


def _lemma1(cells: Sequence[Row], constants: Sequence[Row]) -> Any:
    figure, left, right = _two_panels()
    shown = [*_pairs(cells, "iid uniform")[:3], *_pairs(cells, "walk")]
    for index, (source, states) in enumerate(shown):
        rows = _select(cells, source, states)
        line = "-" if source.startswith("iid") else "--"
        n, needed = [r["samples"] for r in rows], [r["l1_constant"] for r in rows]
        left.plot(n, needed, f"o{line}", color=COLORS[index % 7], label=f"{source}, S = {states}")
    left.axhline(1.0, color="black", linewidth=1)
    left.text(0.01, 1.04, "c = 1", transform=left.get_yaxis_transform(), fontsize=8)
    left.set(xscale="log", yscale="log", xlabel="visits n", ylabel="smallest c that works, δ as set")
    _finish(left, "Lemma 1: independent visits need c < 1, walks do not", fontsize=7)
    deltas = [c["delta"] for c in constants]
    right.plot(deltas, [c["needed"] for c in constants], "o-", color=COLORS[1], label="measured, iid uniform")
    right.plot(deltas, [c["proof"] for c in constants], "--", color=COLORS[0], label="from the proof")
    right.set(yscale="log", xlabel="δ", ylabel="c")
    _finish(right, "No constant serves every δ (S = 100, n = 1024)")
    return figure


def _lemma2(cells: Sequence[Row], written: Sequence[Row]) -> Any:
    figure, left, right = _two_panels()
    for index, (source, states) in enumerate(_pairs(cells, "iid uniform")):
        rows = _select(cells, source, states)
        n = [r["samples"] for r in rows]
        color = COLORS[index % 7]
        left.plot(n, [r["entropy_quantile"] for r in rows], "o-", color=color, label=f"S = {states}")
        left.plot(n, [r["entropy_bound"] for r in rows], ":", color=color)
    left.set(xscale="log", yscale="log", xlabel="visits n", ylabel="|Ĥ − H|, nats")
    _finish(left, "Lemma 2, plug-in: measured (solid) against stated (dotted)", title="iid uniform", title_fontsize=8)
    sizes = [str(w["states"]) for w in written]
    for index, delta in enumerate(written[0]["violations"]):
        shares = [w["violations"][delta] for w in written]
        right.plot(sizes, shares, "o-", color=COLORS[index], label=f"δ = {delta}")
        right.axhline(float(delta), color=COLORS[index], linestyle=":")
    right.set(yscale="log", xlabel="states S", ylabel="probability that the bound fails")
    _finish(right, "Lemma 2 as printed: worst law (solid) against δ (dotted)")
    return figure


def _estimators(cells: Sequence[Row], rates: Sequence[Row]) -> Any:
    figure, left, right = _two_panels()
    names = {"jain_error": "J", "entropy_error": "H", "collision_error": "collisions"}
    for index, (source, states) in enumerate(_pairs(cells, "iid uniform")[1:4]):
        rows = _select(cells, source, states)
        for (field, name), line in zip(names.items(), ("-", "--", ":"), strict=True):
            label = f"{name}, S = {states}"
            errors = [r[field] for r in rows]
            left.plot([r["samples"] for r in rows], errors, line, color=COLORS[index], label=label)
    left.set(xscale="log", yscale="log", xlabel="visits n", ylabel="relative error")
    _finish(left, "Uniform visits: J needs more data than H", fontsize=7, ncols=2)
    for index, rate in enumerate(rates):
        label = f"{rate['law']}: slope {rate['slope']:.2f}"
        right.plot(rate["samples"], rate["errors"], "o-", color=COLORS[index], label=label)
    right.set(xscale="log", yscale="log", xlabel="visits n", ylabel="error of Ĥ, nats")
    _finish(right, "Eq. (9): the rate is 1/√n, not 1/n (S = 100)")
    return figure
