"""Curves of the report as compact panels for `templates/chart.js`, which describes their form."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmrs.report.data import FAMILIES, Column, Curve, ReportData, method_label, metric_label
from mmrs.report.family_stats import FamilyStats
from mmrs.report.reference_scores import game_name
from mmrs.report.rendering import COLORS, method_colors

VANISHING = ("bonus_size", "bonus_advantage_share")
LEARNING = ("episode_return", "game_return", "coverage", "fairness")

Panel = dict[str, Any]
"""One chart: title, x and series."""
Choice = dict[str, Any]
"""What a section can show at a time (a metric, a method): its label, and a panel per game."""


def curve_panels(report: ReportData, stats: dict[str, FamilyStats | str]) -> dict[str, list[Choice]]:
    """The choices of each section of the page."""
    return {
        "learning": _by_metric(report, learning_metrics(report)),
        "terms": _by_method(report),
        "vanishing": _by_metric(report, [m for m in VANISHING if _anywhere(report, m)]),
        "profiles": [_profiles(report, s) for s in stats.values() if isinstance(s, FamilyStats)],
    }


def learning_metrics(report: ReportData) -> list[str]:
    """Metrics that learning curves are drawn of, those of the tables first."""
    own = sorted({n for cell in report.cells.values() for n in cell.curves if n.startswith("env/")})
    # Where lives are games the two curves would be the same.
    drop = {"episode_return"} if report.metrics == ("game_return",) else set()
    names = dict.fromkeys([*report.metrics, *LEARNING, *own])
    return [name for name in names if name not in drop and _anywhere(report, name)]


def method_legend(report: ReportData) -> list[dict[str, Any]]:
    """Name and color of each method, in the form of a series without values."""
    colors = method_colors(report.methods)
    return [{"name": method_label(method), "color": colors[method]} for method in report.methods]


def compact(values: Column) -> list[float | None]:
    """Values rounded to six digits, more than a screen shows; NaN, which JSON does not have, becomes None."""
    safe = np.where(np.isfinite(values) & (values != 0), values, 1.0)
    factor = 10.0 ** (5 - np.floor(np.log10(np.abs(safe))))
    rounded = np.where(values == 0, 0.0, np.round(safe * factor) / factor)
    return [value if fine else None for value, fine in zip(rounded.tolist(), np.isfinite(values), strict=True)]


def _anywhere(report: ReportData, metric: str) -> bool:
    return any(metric in cell.curves for cell in report.cells.values())


def _by_metric(report: ReportData, metrics: list[str]) -> list[Choice]:
    legend = dict(zip(report.methods, method_legend(report), strict=True))
    choices = []
    for metric in metrics:
        panels = []
        for env in report.envs:
            cells = [(m, report.cells.get((env, m))) for m in report.methods]
            series = [_series(legend[m], cell.curves[metric]) for m, cell in cells if cell and metric in cell.curves]
            if series:
                panels.append(_panel(report, env, series, log=metric == "bonus_size"))
        choices.append({"label": metric_label(metric), "panels": panels})
    return choices


def _by_method(report: ReportData) -> list[Choice]:
    choices = []
    for method in report.methods:
        panels = []
        for env in report.envs:
            cell = report.cells.get((env, method))
            terms = [name for name in cell.curves if name.startswith("reward/")] if cell else []
            if cell and len(terms) > 1:  # the task's reward alone shows nothing new
                series = [
                    _series({"name": name.removeprefix("reward/"), "color": i % len(COLORS)}, cell.curves[name])
                    for i, name in enumerate(terms)
                ]
                panels.append(_panel(report, env, series))
        if panels:
            choices.append({"label": method_label(method), "panels": panels})
    return choices


def _profiles(report: ReportData, stats: FamilyStats) -> Choice:
    legend = dict(zip(report.methods, method_legend(report), strict=True))
    series = [_series(legend[m], Curve(*curves)) for m, curves in stats.profiles.items()]
    title = FAMILIES[stats.family]
    return {"label": title, "panels": [{"title": title, "x": compact(stats.thresholds), "series": series}]}


def _panel(report: ReportData, env: str, series: list[dict[str, Any]], log: bool = False) -> Panel:
    panel = {"title": game_name(env), "x": compact(report.grids[env]), "series": series}
    return panel | {"log": True} if log else panel


def _series(named: dict[str, Any], curve: Curve) -> dict[str, Any]:
    flat = np.array_equal(curve.low, curve.high, equal_nan=True)
    band = {} if flat else {"low": compact(curve.low), "high": compact(curve.high)}
    return named | {"mean": compact(curve.mean)} | band
