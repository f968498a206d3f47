"""The report's figures as files: learning curves, the reward's terms, the vanishing bonus, performance profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from mmrs.report.curves import VANISHING, learning_metrics
from mmrs.report.data import FAMILIES, Cell, Curve, ReportData, method_label, metric_label
from mmrs.report.family_stats import FamilyStats
from mmrs.report.reference_scores import game_name
from mmrs.report.rendering import COLORS, method_colors, new_figure, save_figure, style_axes

COLUMNS = 5
KINDS = ("pdf", "svg", "png")

Lines = Callable[[Cell], Iterable[tuple[str, str, Curve]]]
"""Label, color and curve of each line that a cell adds to its game's panel."""


def write_figures(report: ReportData, stats: dict[str, FamilyStats | str], folder: Path) -> list[Path]:
    """Write every figure that the runs have values for, as PDF, SVG and PNG."""
    colors = {method: COLORS[index] for method, index in method_colors(report.methods).items()}
    paths = []
    for metric in [*learning_metrics(report)[:2], *VANISHING]:

        def one(cell: Cell, metric: str = metric) -> Iterable[tuple[str, str, Curve]]:
            if metric in cell.curves:
                yield method_label(cell.method), colors[cell.method], cell.curves[metric]

        name = "vanishing-" if metric in VANISHING else "learning-"
        log = metric == "bonus_size"
        paths += _panels(report, one, folder, name + metric.replace("/", "-"), metric_label(metric), log)
    for method in report.methods:
        paths += _panels(report, _terms_of(method), folder, _file_name(f"terms-{method}"), "mean per step")
    for found in stats.values():
        if isinstance(found, FamilyStats):
            paths += _profile(found, colors, folder)
    return paths


def _terms_of(method: str) -> Lines:
    def terms(cell: Cell) -> Iterable[tuple[str, str, Curve]]:
        names = [n for n in cell.curves if n.startswith("reward/")] if cell.method == method else []
        for i, name in enumerate(names if len(names) > 1 else ()):
            yield name.removeprefix("reward/"), COLORS[i % len(COLORS)], cell.curves[name]

    return terms


def _panels(report: ReportData, lines: Lines, folder: Path, name: str, label: str, log: bool = False) -> list[Path]:
    """One figure with a panel per game; no figure where no game has a line."""
    games = []
    for env in report.envs:
        cells = [cell for m in report.methods if (cell := report.cells.get((env, m)))]
        found = [line for cell in cells for line in lines(cell)]
        if found:
            games.append((env, found))
    if not games:
        return []
    columns = min(COLUMNS, len(games))
    rows = -(-len(games) // columns)
    width, height = 3.0 * columns + 0.8, 2.2 * rows + 1.0
    figure = new_figure(width, height, None)  # for 26 panels the layout solver takes longer than drawing
    figure.subplots_adjust(
        left=0.8 / width, right=1 - 0.15 / width, bottom=0.55 / height, top=1 - 0.65 / height, wspace=0.3, hspace=0.4
    )
    grid = figure.subplots(rows, columns, squeeze=False)
    legend: dict[str, Any] = {}
    for axes, (env, found) in zip(grid.flat, games, strict=False):
        style_axes(axes)
        axes.set_title(_text(game_name(env)), fontsize=9)
        axes.tick_params(labelsize=7)
        for title, color, curve in found:
            legend[title] = _draw(axes, report.grids[env], curve, color)
        if log:
            axes.set_yscale("log")
    for axes in grid.flat[len(games) :]:
        axes.set_visible(False)
    figure.supylabel(label, fontsize=9)
    figure.supxlabel("steps", fontsize=9)
    figure.legend(legend.values(), map(_text, legend), loc="upper center", ncols=len(legend), fontsize=8)
    return save_figure(figure, folder, name, KINDS)


def _draw(axes: Any, x: Any, curve: Curve, color: str) -> Any:
    (line,) = axes.plot(x, curve.mean, color=color, linewidth=1.2)
    if not np.array_equal(curve.low, curve.high, equal_nan=True):
        axes.fill_between(x, curve.low, curve.high, color=color, alpha=0.18, linewidth=0)
    return line


def _profile(stats: FamilyStats, colors: dict[str, str], folder: Path) -> list[Path]:
    figure = new_figure(5.2, 3.4)
    axes = figure.subplots()
    style_axes(axes)
    lines = {m: _draw(axes, stats.thresholds, Curve(*c), colors[m]) for m, c in stats.profiles.items()}
    axes.set(xlabel="normalized score", ylabel="share of runs above", title=FAMILIES[stats.family])
    axes.legend(lines.values(), [_text(method_label(m)) for m in lines], fontsize=8)
    return save_figure(figure, folder, f"profile-{stats.family}", KINDS)


def _text(name: str) -> str:
    """A name with its dollar signs escaped: matplotlib would read text between them as a formula."""
    return name.replace("$", r"\$")


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:80]
