"""Curves of the report as compact lists for the page's script."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmrs.report.data import FAMILIES, Column, Curve, ReportData, method_label, metric_label
from mmrs.report.family_stats import FamilyStats
from mmrs.report.reference_scores import game_name

VANISHING = ("bonus_size", "bonus_advantage_share")
LEARNING = ("life_return", "game_return", "coverage", "fairness")

Panel = dict[str, Any]
"""title, x and series; a series is [method's number, or label; mean; low; high]."""


def curve_panels(report: ReportData, stats: dict[str, FamilyStats | str]) -> dict[str, list[dict[str, Any]]]:
    """For each section of the page its choices (a metric, a method), and for each choice a panel a game."""
    return {
        "learning": _by_metric(report, learning_metrics(report)),
        "terms": _by_method(report),
        "vanishing": _by_metric(report, [m for m in VANISHING if _anywhere(report, m)]),
        "profiles": [_profiles(report, s) for s in stats.values() if isinstance(s, FamilyStats)],
    }


def learning_metrics(report: ReportData) -> list[str]:
    """What learning curves are drawn of: the tables' scores first."""
    own = sorted({n for cell in report.cells.values() for n in cell.curves if n.startswith("env/")})
    # Where lives are games the one curve would be the other.
    drop = {"life_return"} if report.metrics == ("game_return",) else set()
    names = dict.fromkeys([*report.metrics, *LEARNING, *own])
    return [name for name in names if name not in drop and _anywhere(report, name)]


def _anywhere(report: ReportData, metric: str) -> bool:
    return any(metric in cell.curves for cell in report.cells.values())


def _by_metric(report: ReportData, metrics: list[str]) -> list[dict[str, Any]]:
    choices = []
    for metric in metrics:
        panels = []
        for env in report.envs:
            there = [(n, report.cells.get((env, m))) for n, m in enumerate(report.methods)]
            series = [_series(n, cell.curves[metric]) for n, cell in there if cell and metric in cell.curves]
            if series:
                panels.append(_panel(report, env, series))
        choices.append({"label": metric_label(metric), "log": metric == "bonus_size", "panels": panels})
    return choices


def _by_method(report: ReportData) -> list[dict[str, Any]]:
    choices = []
    for method in report.methods:
        panels = []
        for env in report.envs:
            cell = report.cells.get((env, method))
            terms = [name for name in cell.curves if name.startswith("reward/")] if cell else []
            if cell and len(terms) > 1:  # the task's reward alone is no news
                series = [_series(name.removeprefix("reward/"), cell.curves[name]) for name in terms]
                panels.append(_panel(report, env, series))
        if panels:
            choices.append({"label": method_label(method), "log": False, "panels": panels})
    return choices


def _profiles(report: ReportData, stats: FamilyStats) -> dict[str, Any]:
    series = [_series(report.methods.index(m), Curve(*curves)) for m, curves in stats.profiles.items()]
    panel = {"title": FAMILIES[stats.family], "x": compact(stats.thresholds), "series": series}
    return {"label": FAMILIES[stats.family], "log": False, "panels": [panel]}


def _panel(report: ReportData, env: str, series: list[list[Any]]) -> Panel:
    return {"title": game_name(env), "x": compact(report.grids[env]), "series": series}


def _series(name: int | str, curve: Curve) -> list[Any]:
    flat = np.array_equal(curve.low, curve.high, equal_nan=True)
    return [name, compact(curve.mean), *([] if flat else [compact(curve.low), compact(curve.high)])]


def compact(values: Column) -> list[float | None]:
    """Six digits are more than a screen shows; NaN, which JSON does not have, becomes None."""
    safe = np.where(np.isfinite(values) & (values != 0), values, 1.0)
    factor = 10.0 ** (5 - np.floor(np.log10(np.abs(safe))))
    rounded = np.where(values == 0, 0.0, np.round(safe * factor) / factor)
    return [value if fine else None for value, fine in zip(rounded.tolist(), np.isfinite(values), strict=True)]
