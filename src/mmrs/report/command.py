"""`mmrs report`: one page with the results of any number of runs, and its figures and tables as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from mmrs.errors import InputError, require_packages
from mmrs.report.build import build_report
from mmrs.report.collect import collect
from mmrs.report.data import FAMILIES, ReportData
from mmrs.report.family_stats import family_stats
from mmrs.report.figures import write_figures
from mmrs.report.page import render_report
from mmrs.report.tables import ScoreTable, score_tables, to_csv, to_latex, to_markdown
from mmrs.storage.files import output_folder, write_atomic


@dataclass(frozen=True)
class ReportConfig:
    """Report on runs and sweeps: one self-contained HTML page, its figures and its tables."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs or sweeps, searched at any depth. Runs may still be in progress."""
    out: Path = Path("report")
    """Folder to write the report to."""
    metrics: tuple[str, ...] = ()
    """Metrics to make tables of. Default: returns of lives and of whole games."""
    figures: bool = False
    """Also write the figures as PDF, SVG and PNG. For many games this takes longer than the rest of the report."""


def report(config: ReportConfig, console: Console | None = None) -> Path:
    """Read the runs, write the report and print a summary; returns the path of the page."""
    if not config.folders:
        raise InputError("name at least one folder of runs: mmrs report runs")
    require_packages(jinja2="report", scipy="stats", **({"matplotlib": "report"} if config.figures else {}))
    found = collect(config.folders)
    out = output_folder(config.out)
    data = build_report(found, config.metrics)
    stats = {family: family_stats(data, family) for family in FAMILIES if data.family(family)}
    tables = score_tables(data)
    page = write_atomic(out / "report.html", render_report(data, tables, stats))
    _write_tables(tables, out)
    if config.figures:
        write_figures(data, stats, output_folder(out / "figures"))
    _print_summary(data, page, console or Console())
    return page


def _write_tables(tables: list[ScoreTable], out: Path) -> None:
    folder = output_folder(out / "tables")
    for table in tables:
        for ending, text in (("csv", to_csv(table)), ("md", to_markdown(table)), ("tex", to_latex(table))):
            write_atomic(folder / f"{table.name}.{ending}", text)


def _print_summary(data: ReportData, page: Path, console: Console) -> None:
    runs = sum(len(cell.runs) for cell in data.cells.values())
    console.print(f"runs: {runs:,}, games: {len(data.envs)}, methods: {len(data.methods)}", highlight=False)
    for problem in data.problems:
        console.print(f"note: {problem}", highlight=False, markup=False, soft_wrap=True)
    if data.missing_runs:
        console.print(f"note: {data.missing_runs:,} runs of the sweep are not there yet", highlight=False)
    if data.flags:
        console.print(f"{len(data.flags)} flags about bonuses: see the page, or `mmrs audit RUN`", highlight=False)
    console.print(f"report: {page}", highlight=False, markup=False, soft_wrap=True)
