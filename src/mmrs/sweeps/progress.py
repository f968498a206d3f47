"""What one sees of a sweep: counts by environment and method, the runs at work, the time left.

A terminal gets a live table, anything else a line every few seconds and one for each failure.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mmrs.runs.console import LiveView
from mmrs.runs.progress import Progress, duration, overview, short_count
from mmrs.sweeps.schedule import Job, Schedule

LINE_EVERY = 10.0
"""Seconds between plain lines."""
LOOK_EVERY = 2.0
"""Seconds between looks at the records of the runs at work."""
MOST_ROWS = 24
"""Environments, and runs at work, shown one by one; beyond that they are summed up."""
_TAIL = 1 << 14


class SweepTable(LiveView):
    """Shows a schedule; use as a context manager and call `refresh` often."""

    redraws_per_second = 2.0

    def __init__(self, title: str, schedule: Schedule, *, console: Console | None = None, quiet: bool = False) -> None:
        """Args:
        title: of the sweep.
        schedule: what to show.
        console: to draw on; None: standard error.
        quiet: show nothing.
        """
        super().__init__(console, quiet)
        self.title, self.schedule = title, schedule
        self.rows: dict[str, dict[str, Any]] = {}
        self._began, self._done_before = time.monotonic(), self._steps_done()
        self._looked = self._spoke = -LINE_EVERY
        self._errors: dict[str, str] = {}

    def refresh(self) -> None:
        """Look at the runs and say what is new."""
        now = time.monotonic()
        if self.quiet or now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        at_work = {job.cell.name for job in self.schedule.running()}
        self.rows = {name: last_row(self.schedule.folder / name / "metrics.jsonl") for name in at_work}
        self._tell_errors()
        if self._live is None and now - self._spoke >= LINE_EVERY:
            self._spoke = now
            self.say(self.summary())

    def summary(self) -> str:
        """Where the sweep stands, in a line."""
        counts = self.schedule.counts()
        parts = [f"{self.title}: {counts['finished']}/{len(self.schedule.jobs)} finished"]
        parts += [f"{counts[state]} {state}" for state in ("running", "waiting", "failed") if counts[state]]
        total, done = self._steps_total(), self._steps_done()
        speed = (done - self._done_before) / max(time.monotonic() - self._began, 1e-9)
        if total and speed > 0:
            left = duration((total - done) / speed)
            parts.append(f"{short_count(done)}/{short_count(total)} steps, {speed:,.0f}/s, {left} left")
        return " | ".join(parts)

    def draw(self) -> RenderableType:
        """The picture as it is now."""
        at_work = [
            _progress(job, self.rows.get(job.cell.name, {}))
            for job in self.schedule.running()
            if job.cell.kind == "train"
        ]
        shown: list[RenderableType] = [grid(self.schedule), Text(self.summary())]
        if at_work:
            shown.append(overview(at_work[:MOST_ROWS]))
        if len(at_work) > MOST_ROWS:
            shown.append(Text(f"and {len(at_work) - MOST_ROWS} more at work", style="dim"))
        return Group(*shown)

    def _tell_errors(self) -> None:
        for name, job in self.schedule.jobs.items():
            if job.error and self._errors.get(name) != job.error:
                last = job.error.strip().splitlines()[-1]
                self.say(f"{name}: {'failed for good' if job.state == 'failed' else 'will be tried again'}: {last}")
            self._errors[name] = job.error

    def _steps_total(self) -> int:
        return sum(_steps(job) for job in self.schedule.jobs.values() if job.state != "failed")

    def _steps_done(self) -> int:
        finished = sum(_steps(job) for job in self.schedule.jobs.values() if job.state == "finished")
        at_work = (self.rows.get(job.cell.name, {}) for job in self.schedule.running())
        return finished + sum(int(row.get("step", 0)) for row in at_work)


def grid(schedule: Schedule) -> Table:
    """Environments by methods: how many seeds are finished, at work and failed."""
    jobs = list(schedule.jobs.values())
    envs = list(dict.fromkeys(job.cell.env for job in jobs))
    methods = list(dict.fromkeys(job.cell.method for job in jobs))
    groups = [(env, env) for env in envs] if len(envs) <= MOST_ROWS else [(f"all {len(envs)} environments", None)]
    found = Counter[tuple[str | None, str, str]]((job.cell.env, job.cell.method, job.state) for job in jobs)
    found.update((None, job.cell.method, job.state) for job in jobs)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("finished", overflow="fold")
    for method in methods:
        table.add_column(method, justify="right", no_wrap=True)
    for title, env in groups:
        states = [{s: found[env, m, s] for s in ("waiting", "running", "finished", "failed")} for m in methods]
        table.add_row(Text(title), *(_entry(counts) for counts in states))
    return table


def last_row(path: Path) -> dict[str, Any]:
    """The newest whole row of a record that is being written; empty where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            return row
    return {}


def _entry(counts: dict[str, int]) -> Text:
    text = Text(f"{counts['finished']}/{sum(counts.values())}", style="green" if not any(
        counts[state] for state in ("waiting", "running", "failed")) else "")  # fmt: skip
    for state, sign, style in (("running", "▸", "cyan"), ("failed", "✗", "bold red")):
        if counts[state]:
            text.append(f" {sign}{counts[state]}", style=style)
    return text


def _progress(job: Job, row: dict[str, Any]) -> Progress:
    progress = Progress(job.cell.name, _steps(job))
    if "step" in row:
        progress.take(row)
    return progress


def _steps(job: Job) -> int:
    return int(job.cell.config.get("steps", 0))
