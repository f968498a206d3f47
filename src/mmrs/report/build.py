"""Turn runs into the contents of a report: seeds grouped into cells, curves resampled to one grid per game."""

from __future__ import annotations

import datetime
import json
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

import mmrs
from mmrs.audit.record_checks import RECORD_CHECKS, audit_record, bonus_size, bonus_terms
from mmrs.errors import InputError, did_you_mean
from mmrs.report.collect import Collection
from mmrs.report.data import Cell, Curve, Flag, ReportData, RunLine
from mmrs.report.reference_scores import METHODS as PAPER_METHODS
from mmrs.report.reference_scores import TABLES, scored_family
from mmrs.runs.records import POINTS, Column, RunRecord
from mmrs.stats import t_interval

CURVES = ("episode_return", "game_return", "coverage", "fairness", "bonus_advantage_share", "steps_per_second")
_NO_SCORES = ("step", "bonus_advantage_share", "steps_per_second")

_SMALLEST = 1e-6
"""Smallest relative size of a bonus that is drawn: the logarithmic scale cannot show 0."""

Group = dict[tuple[str, str], list[RunRecord]]


def build_report(found: Collection, metrics: Sequence[str] = ()) -> ReportData:
    """The report of a collection of runs.

    Args:
        found: the runs.
        metrics: metrics of the record to make tables of. Default: returns of lives and of games, or one where the two
            agree.
    """
    groups: Group = defaultdict(list)
    for run, label in zip(found.runs, found.labels, strict=True):
        groups[run.env, label].append(run)
    planned: dict[tuple[str, str], set[int]] = defaultdict(set)
    for one in found.planned:
        planned[one.env, one.method].add(one.seed)
    metrics = _metrics(found.runs, metrics)
    grids = _grids(found.runs)
    cells = {}
    for (env, method), runs in groups.items():
        runs.sort(key=lambda run: run.seed)
        seeds = {run.seed for run in runs} | planned.get((env, method), set())
        cells[env, method] = _cell(env, method, runs, len(seeds), metrics, grids[env])
    present = {(run.env, run.method, run.seed) for run in found.runs}
    keys = [*cells, *planned]
    return ReportData(
        cells=cells,
        pairs=frozenset(keys),
        envs=tuple(sorted({env for env, _ in keys}, key=_game_order)),
        methods=tuple(sorted({method for _, method in keys}, key=_method_order)),
        metrics=metrics,
        grids=grids,
        problems=found.problems,
        flags=_flags(found),
        suites=found.suites,
        tables=tuple(map(str, found.tables)),
        made=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, mmrs {mmrs.__version__}",
        missing_runs=sum((one.env, one.method, one.seed) not in present for one in found.planned),
    )


def _game_order(env: str) -> tuple[int, str]:
    """Sort key: the paper's order, then the rest by name."""
    known = [(family, game) for family, table in TABLES.items() for game in table]
    found = scored_family(env)
    return (known.index(found), "") if found in known else (len(known), env)


def _method_order(method: str) -> tuple[int, str]:
    name = method.partition(" ")[0]
    return (PAPER_METHODS.index(name) if name in PAPER_METHODS else len(PAPER_METHODS), method)


def _metrics(runs: Sequence[RunRecord], requested: Sequence[str]) -> tuple[str, ...]:
    known = {name: None for run in runs for name in run.columns if name not in _NO_SCORES and "reward/" not in name}
    for name in requested:
        if name not in known:
            raise InputError(f"no run has the metric {name!r}. {did_you_mean(name, known)}")
    if requested:
        return tuple(requested)
    differ = any(run.last("episode_return") != run.last("game_return") for run in runs)
    return ("episode_return", "game_return") if differ else ("game_return",)


# --- cells ------------------------------------------------------------------------------------------------------------


def _cell(env: str, method: str, runs: Sequence[RunRecord], planned: int, metrics: Sequence[str], grid: Column) -> Cell:
    last = {metric: {run.seed: run.last(metric) for run in runs} for metric in {*metrics, "game_return"}}
    return Cell(
        env=env,
        method=method,
        runs=tuple(_line(run) for run in runs),
        planned=planned,
        # Unstated: when the paper's scores were taken; ours are the record's last, the mean of the last 100 episodes.
        scores={m: {seed: value for seed, value in row.items() if value is not None} for m, row in last.items()},
        curves=_curves(runs, grid),
        config=json.dumps(runs[0].config, indent=1),
    )


def _line(run: RunRecord) -> RunLine:
    state = "finished" if run.finished else "failed" if run.error else "unfinished"
    return RunLine(
        name=run.path.name,
        path=str(run.path),
        seed=run.seed,
        step=run.step,
        total=run.total,
        state=state,
        bad_lines=run.bad_lines,
        version=run.version,
        command=run.command,
        error=run.error,
    )


def _grids(runs: Sequence[RunRecord]) -> dict[str, Column]:
    """The steps of each game's curves, common to all methods so that they can be compared."""
    ends: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        steps = run.columns["step"]
        ends[run.env].extend((steps[0], steps[-1]) if len(steps) else (0.0,))
    return {env: np.linspace(min(values), max(values), POINTS) for env, values in ends.items()}


def _curves(runs: Sequence[RunRecord], grid: Column) -> dict[str, Curve]:
    names: dict[str, None] = {}
    for run in runs:
        terms = [n for n in run.columns if n.startswith("reward/") and not n.endswith(("_std", "_share"))]
        names |= dict.fromkeys([*(n for n in run.columns if n in CURVES or n.startswith("env/")), *terms])
    curves = {name: _curve([_on_grid(run, run.columns.get(name), grid) for run in runs]) for name in names}
    if any(bonus_terms(run) for run in runs):
        # Averaged over seeds in logarithms: sizes are compared by ratios, and no interval extends below 0.
        sizes = np.log(np.maximum([_on_grid(run, relative_size(run), grid) for run in runs], _SMALLEST))
        curves["bonus_size"] = Curve(*map(np.exp, t_interval(sizes)))
    return curves


def _curve(rows: list[Column]) -> Curve:
    return Curve(*t_interval(np.stack(rows)))


def _on_grid(run: RunRecord, values: Column | None, grid: Column) -> Column:
    """A metric interpolated between the rows of the record; NaN before its first value and after its last."""
    steps = run.columns["step"]
    known = ~np.isnan(values) if values is not None else np.zeros(0, bool)
    if values is None or not known.any():
        return np.full(len(grid), np.nan)
    return np.interp(grid, steps[known], values[known], left=np.nan, right=np.nan)


# --- the bonus --------------------------------------------------------------------------------------------------------


def relative_size(run: RunRecord) -> Column | None:
    """Size of the bonus relative to its mean over the first tenth of the run; None without a bonus there."""
    size = bonus_size(run)
    first = np.nanmean(size[: max(1, len(size) // 10)]) if len(size) and not np.isnan(size).all() else 0.0
    return size / first if first > 0 else None


def _flags(found: Collection) -> tuple[Flag, ...]:
    """Findings in the records, and those that `mmrs audit` saved in the runs' folders."""
    flags: dict[tuple[str, str], Flag] = {}
    for run, label in zip(found.runs, found.labels, strict=True):
        from_record = [(f.title, f.measured, f.remedy) for f in audit_record(run) if f.flagged]
        # Checks of the record are repeated on its present state: the run may have continued since its audit.
        probed = [f for f in run.findings if f.get("flagged") and f.get("name") not in RECORD_CHECKS]
        from_probe = [(f.get("title"), f.get("measured"), f.get("remedy")) for f in probed]
        for title, measured, remedy in [*from_record, *from_probe]:
            key = (str(run.path), str(title))
            flags.setdefault(key, Flag(run.path.name, run.env, label, str(title), str(measured), str(remedy)))
    return tuple(flags.values())
