"""The report as one self-contained HTML file: it makes no network requests."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmrs.report.curves import curve_panels, method_legend
from mmrs.report.data import FAMILIES, SCALES, Cell, ReportData, method_label, metric_label, short
from mmrs.report.family_stats import OTHER_SCALE, FamilyStats
from mmrs.report.reference_scores import CLAIMS, SOURCES, TABLES
from mmrs.report.rendering import load_template
from mmrs.report.tables import ScoreTable


def render_report(report: ReportData, tables: list[ScoreTable], stats: dict[str, FamilyStats | str]) -> str:
    """The page as text."""
    cells = [_cell(cell) for cell in report.cells.values()]
    return str(
        load_template("report.html.jinja", method=method_label, metric=metric_label, short=short).render(
            report=report,
            title=" and ".join(report.suites) or "runs",
            counts=_counts(report),
            methods=[method_label(m) for m in report.methods],
            tables=tables,
            table_sources=SOURCES,
            cell_index={(cell.env, cell.method): n for n, cell in enumerate(report.cells.values())},
            stats=[_stats(FAMILIES[f], s) for f, s in stats.items() if isinstance(s, FamilyStats)],
            no_stats=[(FAMILIES[f], s) for f, s in stats.items() if isinstance(s, str)],
            claims=CLAIMS if any(report.family(f) for f in TABLES) else (),
            speeds=_speeds(report),
            data={"legend": method_legend(report), "panels": curve_panels(report, stats), "cells": cells},
        )
    )  # fmt: skip


def _counts(report: ReportData) -> list[tuple[str, str]]:
    states = [run.state for cell in report.cells.values() for run in cell.runs]
    counts = [
        ("runs", len(states)),
        ("finished", states.count("finished")),
        ("not finished", states.count("unfinished")),
        ("failed", states.count("failed")),
        ("not started", report.missing_runs),
        ("games", len(report.envs)),
        ("methods", len(report.methods)),
    ]
    return [(name, f"{number:,}") for name, number in counts]


def _cell(cell: Cell) -> dict[str, Any]:
    """The details of a cell that a click on it shows."""
    commands = list(dict.fromkeys(run.command for run in cell.runs if run.command))
    return {
        "title": f"{method_label(cell.method)} in {cell.env}",
        "config": cell.config,
        "commands": commands or ["not recorded"],
        "runs": [
            [run.path, run.seed, f"{run.step:,} of {run.total:,}", run.state, run.version, run.error]
            for run in cell.runs
        ],
    }


def _stats(title: str, found: FamilyStats) -> dict[str, Any]:
    ranked = sorted(found.aggregates, key=lambda m: -found.aggregates[m]["iqm"].value)
    best = {n: max(found.aggregates, key=lambda m: found.aggregates[m][n].value) for n in ("mean", "median", "iqm")}
    return {
        "title": title,
        "family": found.family,
        "scale": SCALES[found.family].about if found.family in SCALES else OTHER_SCALE,
        "games": len(found.games),
        "seeds": found.seeds,
        "unfinished": found.unfinished,
        "left_out": found.left_out,
        "baseline": method_label(found.baseline),
        "rows": [(m, found.aggregates[m], {n for n in best if best[n] == m}) for m in ranked],
        "improvements": found.improvements,
    }


def _speeds(report: ReportData) -> list[tuple[str, list[float | None]]]:
    """Steps per second in each game, by method: the median over training of the mean over seeds."""
    rows = []
    for env in report.envs:
        curves = [
            cell.curves.get("steps_per_second") if (cell := report.cells.get((env, m))) else None
            for m in report.methods
        ]
        known = [c is not None and not np.isnan(c.mean).all() for c in curves]
        medians = [float(np.nanmedian(c.mean)) if c and k else None for c, k in zip(curves, known, strict=True)]
        rows.append((env, medians))
    return rows
