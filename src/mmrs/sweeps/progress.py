"""The display of a sweep: counts by environment and method, the runs under way, the time left.

A terminal gets a live table, anything else a line every few seconds and one per failure.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mmrs.runs.console import LiveView
from mmrs.runs.metrics_log import last_row
from mmrs.runs.progress import Progress, duration, overview, short_count
from mmrs.sweeps.scheduler import Job, Scheduler

LINE_SECONDS = 10.0
"""Seconds between plain lines."""
POLL_SECONDS = 2.0
"""Seconds between readings of the metrics of the runs under way."""
MOST_ROWS = 24
"""Environments, and runs under way, shown one by one; beyond that they are summed up."""
"""Bytes at the end of a metrics file that hold its last row."""


class SweepTable(LiveView):
    """Shows the jobs of a scheduler; use as a context manager and call `refresh` often."""

    redraws_per_second = 2.0

    def __init__(
        self, title: str, scheduler: Scheduler, *, console: Console | None = None, quiet: bool = False
    ) -> None:
        """Args:
        title: name of the sweep.
        scheduler: what to show.
        console: where to draw; None: standard error.
        quiet: show nothing.
        """
        super().__init__(console, quiet)
        self.title, self.scheduler = title, scheduler
        self.rows: dict[str, dict[str, Any]] = {}
        self._began, self._done_before = time.monotonic(), self._steps_done()
        self._last_poll = self._last_line = -LINE_SECONDS
        self._errors: dict[str, str] = {}

    def refresh(self) -> None:
        """Read the newest metrics and print what is new."""
        now = time.monotonic()
        if self.quiet or now - self._last_poll < POLL_SECONDS:
            return
        self._last_poll = now
        running = {job.spec.name for job in self.scheduler.running()}
        self.rows = {name: last_row(self.scheduler.folder / name / "metrics.jsonl") for name in running}
        self._print_errors()
        if self._live is None and now - self._last_line >= LINE_SECONDS:
            self._last_line = now
            self.print_line(self.summary())

    def summary(self) -> str:
        """The state of the sweep in one line."""
        counts = self.scheduler.counts()
        parts = [f"{self.title}: {counts['finished']}/{len(self.scheduler.jobs)} finished"]
        parts += [f"{counts[state]} {state}" for state in ("running", "waiting", "failed") if counts[state]]
        total, done = self._steps_total(), self._steps_done()
        speed = (done - self._done_before) / max(time.monotonic() - self._began, 1e-9)
        if total and speed > 0:
            left = duration((total - done) / speed)
            parts.append(f"{short_count(done)}/{short_count(total)} steps, {speed:,.0f}/s, {left} left")
        return " | ".join(parts)

    def draw(self) -> RenderableType:
        """The display as it is now."""
        running = [
            _progress(job, self.rows.get(job.spec.name, {}))
            for job in self.scheduler.running()
            if job.spec.kind == "train"
        ]
        shown: list[RenderableType] = [grid(self.scheduler), Text(self.summary())]
        if running:
            shown.append(overview(running[:MOST_ROWS]))
        if len(running) > MOST_ROWS:
            shown.append(Text(f"and {len(running) - MOST_ROWS} more running", style="dim"))
        return Group(*shown)

    def _print_errors(self) -> None:
        for name, job in self.scheduler.jobs.items():
            if job.error and self._errors.get(name) != job.error:
                last = job.error.strip().splitlines()[-1]
                self.print_line(f"{name}: {'failed' if job.state == 'failed' else 'failed, will be retried'}: {last}")
            self._errors[name] = job.error

    def _steps_total(self) -> int:
        return sum(_steps(job) for job in self.scheduler.jobs.values() if job.state != "failed")

    def _steps_done(self) -> int:
        finished = sum(_steps(job) for job in self.scheduler.jobs.values() if job.state == "finished")
        running = (self.rows.get(job.spec.name, {}) for job in self.scheduler.running())
        return finished + sum(int(row.get("step", 0)) for row in running)


def grid(scheduler: Scheduler) -> RenderableType:
    """A table of environments by methods: how many seeds are finished, running and failed; and a legend."""
    jobs = list(scheduler.jobs.values())
    envs = list(dict.fromkeys(job.spec.env for job in jobs))
    methods = list(dict.fromkeys(job.spec.method for job in jobs))
    groups = [(env, env) for env in envs] if len(envs) <= MOST_ROWS else [(f"all {len(envs)} environments", None)]
    found = Counter[tuple[str | None, str, str]]((job.spec.env, job.spec.method, job.state) for job in jobs)
    found.update((None, job.spec.method, job.state) for job in jobs)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("environment", overflow="fold")
    for method in methods:
        table.add_column(method, justify="right", no_wrap=True)
    for title, env in groups:
        states = [{s: found[env, m, s] for s in ("waiting", "running", "finished", "failed")} for m in methods]
        table.add_row(Text(title), *(_entry(counts) for counts in states))
    return Group(table, Text("finished/runs, ▸ running, ✗ failed", style="dim"))


def _entry(counts: dict[str, int]) -> Text:
    text = Text(f"{counts['finished']}/{sum(counts.values())}", style="green" if not any(
        counts[state] for state in ("waiting", "running", "failed")) else "")  # fmt: skip
    for state, sign, style in (("running", "▸", "cyan"), ("failed", "✗", "bold red")):
        if counts[state]:
            text.append(f" {sign}{counts[state]}", style=style)
    return text


def _progress(job: Job, row: dict[str, Any]) -> Progress:
    progress = Progress(job.spec.name, _steps(job))
    if "step" in row:
        progress.take(row)
    return progress


def _steps(job: Job) -> int:
    return int(job.spec.config.get("steps", 0))
