"""`mmrs train --compare`: several methods side by side on one environment; a table and a page at the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

import mmrs
from mmrs import plugins
from mmrs.errors import InputError, MissingExtraError, MmrsError, did_you_mean
from mmrs.report.comparison import Comparison, write_comparison_page
from mmrs.runs.build import build_bonus, build_envs
from mmrs.runs.config import BonusConfig, TrainConfig, check
from mmrs.runs.config_json import to_json
from mmrs.runs.console import resilient_console
from mmrs.runs.folder import slug
from mmrs.runs.history import current_command
from mmrs.runs.loggers import require_wandb
from mmrs.runs.metrics_log import last_row
from mmrs.runs.presets import ALL_PRESETS, default_bonus
from mmrs.runs.progress import Display
from mmrs.runs.signals import StopSignals
from mmrs.runs.threads import usable_cores
from mmrs.sweeps.compare_result import read_comparison, record_video
from mmrs.sweeps.engines.base import Resources, SweepContext
from mmrs.sweeps.engines.local import LocalEngine
from mmrs.sweeps.job import CONFIGS
from mmrs.sweeps.plan import SCHEMA, Plan, write_or_merge
from mmrs.sweeps.scheduler import Scheduler
from mmrs.sweeps.suites import RunSpec, method_bonus, training_methods

PAGE = "index.html"


def train_side_by_side(config: TrainConfig, methods: Sequence[str], seeds: int = 1) -> int:
    """Train each method with each seed, in as many processes as there are cores.

    Existing runs are continued, and finished ones are left as they are: after any stop, the same command continues.

    Args:
        config: configuration of all runs. Each method has its default bonus, unless it is the one configured here.
        methods: names from `training_methods`.
        seeds: number of seeds, from the seed of `config` on.

    Returns:
        0; 1 if a run failed; or the exit code of the signal that stopped it.
    """
    specs = make_specs(config, methods, seeds)
    _try_bonuses(config, methods)
    if config.wandb:
        require_wandb()
    folder = (config.root / (config.name or slug("compare", config.env.id))).resolve()
    context = SweepContext(folder, current_command())
    settings = {"steps": config.steps, "seeds": seeds, "games": [config.env.id], "methods": list(methods)}
    write_or_merge(folder, Plan(SCHEMA, "compare", mmrs.__version__, context.command, settings, specs), CONFIGS)
    scheduler = Scheduler(folder, specs, retries=0)
    engine = LocalEngine(context, _jobs(config, len(specs)), Resources(config.threads, 0.0))
    try:
        display = Display({c.name: config.steps for c in specs}, quiet=config.quiet)
        with StopSignals(display.announce) as stop, display:
            scheduler.run(engine, lambda: stop.requested, lambda: _show(scheduler, display))
            _show(scheduler, display)
    finally:
        engine.close()
    if stop.requested:
        _print(f"Stopped and saved in {folder}. The same command continues.", resilient_console())
        return stop.exit_code
    return _conclude(scheduler, config, specs)


def _jobs(config: TrainConfig, runs: int) -> int:
    """Number of runs at a time."""
    return max(1, min(usable_cores() // config.threads, runs))


def make_specs(config: TrainConfig, methods: Sequence[str], seeds: int) -> tuple[RunSpec, ...]:
    """One run per method and seed."""
    plugins.load(config.imports)
    if not methods:
        raise InputError(f"--compare names no method. Known: {', '.join(training_methods())}.")
    if seeds < 1:
        raise InputError(f"the number of seeds is {seeds}, expected at least 1.")
    for method in methods:
        if method not in training_methods():
            raise InputError(f"there is no method {method!r} to compare. {did_you_mean(method, training_methods())}")
    _reject_unused_options(config, methods)
    check(config)
    # Runs share the machine well only where they count threads.
    runs = seeds * len(set(methods))
    several = runs > 1 and config.env.threads is None
    share = max(config.threads, usable_cores() // _jobs(config, runs))
    env = replace(config.env, threads=share) if several else config.env
    specs = []
    for seed in range(config.seed, config.seed + seeds):
        for method in dict.fromkeys(methods):
            name = slug(method, str(seed))
            run = replace(config, env=env, bonus=_bonus(config, method), seed=seed, root=Path(), name=name, quiet=True)
            specs.append(RunSpec(name, "train", config.env.id, method, seed, to_json(run)))
    return tuple(specs)


def _bonus(config: TrainConfig, method: str) -> BonusConfig:
    return config.bonus if method == config.bonus.name else method_bonus(config.env.id, method)


def _reject_unused_options(config: TrainConfig, methods: Sequence[str]) -> None:
    """Refuse options of a bonus that is not compared, because they would have no effect."""
    name, unchanged = config.bonus.name, [preset.bonus for preset in ALL_PRESETS.values()]
    if name not in (*methods, "none") and config.bonus not in (default_bonus(name), *unchanged):
        raise InputError(
            f"the options of the bonus are those of {name}, which is not compared ({', '.join(methods)} are). "
            f"Name the reward that they belong to, for example --bonus {methods[-1]}."
        )


def _try_bonuses(config: TrainConfig, methods: Sequence[str]) -> None:
    """Refuse, before anything is trained, methods that cannot read the environment."""
    with closing(build_envs(replace(config.env, vectorization="sync"), num_envs=1)) as envs:
        for method in methods:
            build_bonus(_bonus(config, method), envs, 1, config.seed)


def _show(scheduler: Scheduler, display: Display) -> None:
    """Pass the newest row of each run to the display."""
    for name, job in scheduler.jobs.items():
        shown = display.runs[name]
        if job.state == "waiting" or shown.status:
            continue
        row = last_row(scheduler.folder / name / "metrics.jsonl")
        if row.get("step", 0) > shown.step:
            display.update(name, row)
        if job.state in ("finished", "failed"):
            display.set_status(name, "done" if job.state == "finished" else "failed")


def _conclude(scheduler: Scheduler, config: TrainConfig, specs: tuple[RunSpec, ...]) -> int:
    failed = [job for job in scheduler.jobs.values() if job.state == "failed"]
    for job in failed:
        _print(f"{job.spec.name} failed:\n{job.error.strip()}", resilient_console())
    finished = [spec for spec in specs if scheduler.jobs[spec.name].state == "finished"]
    if finished:
        print_results(scheduler.folder, config, finished, resilient_console(stderr=False))
    return 1 if failed else 0


def print_results(folder: Path, config: TrainConfig, specs: Sequence[RunSpec], console: Console) -> None:
    """Print a table of finished runs, and write a page, with a video where one can be made."""
    comparison = read_comparison(folder, config, specs)
    console.print(summary(comparison))
    try:
        method, content = record_video(folder, comparison)
        comparison = replace(comparison, video=content, video_of=method)
    except MmrsError as error:  # an extra is missing, or the environment draws nothing
        _print(f"No video: {error}", console)
    try:
        _print(f"page: {write_comparison_page(folder / PAGE, comparison)}", console)
    except MissingExtraError as error:
        _print(f"No page: {error}", console)


def _print(text: str, console: Console) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def summary(comparison: Comparison) -> Table:
    """A table with one row per method: the mean over its seeds."""
    table = Table(title=comparison.title, box=box.SIMPLE, title_justify="left")
    table.add_column("method")
    columns, rows = comparison.table()
    for name in columns:
        table.add_column(name, justify="right")
    for method, row in zip(comparison.methods, rows, strict=True):
        table.add_row(method.name, *row)
    return table
