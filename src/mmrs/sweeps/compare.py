"""`mmrs train --compare`: several methods on one environment at once, one display, a table and a page at the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

import mmrs
from mmrs.errors import InputError, MissingExtraError, MmrsError, near_matches
from mmrs.report.comparison import COLUMNS, Comparison, write_comparison_page
from mmrs.rewards import REWARDS
from mmrs.runs.build import build_bonus, build_envs, usable_cores
from mmrs.runs.config import BonusConfig, TrainConfig
from mmrs.runs.config_check import check
from mmrs.runs.config_json import to_json
from mmrs.runs.console import lasting_console
from mmrs.runs.folder import plain_name
from mmrs.runs.history import own_command
from mmrs.runs.loggers import require_wandb
from mmrs.runs.presets import EVERY_PRESET, default_bonus
from mmrs.runs.progress import Display
from mmrs.runs.signals import StopSignals
from mmrs.sweeps.compare_result import film, read_comparison
from mmrs.sweeps.engines.base import Resources, Task
from mmrs.sweeps.engines.local import LocalEngine
from mmrs.sweeps.job import CONFIGS
from mmrs.sweeps.plan import SCHEMA, Plan, enter
from mmrs.sweeps.progress import last_row
from mmrs.sweeps.schedule import Schedule
from mmrs.sweeps.suites import Cell, training_method

PAGE = "index.html"
METHODS = ("ppo", "mmrs-paper", *REWARDS)
"""What can be compared: PPO without a bonus, the reward as printed, and every reward there is."""


def train_side_by_side(config: TrainConfig, methods: Sequence[str], seeds: int = 1) -> int:
    """Train each method with each seed, in as many processes as there are cores.

    A run that is there already is continued, or left as it is when finished: the same command goes on after any stop.

    Args:
        config: of all runs; each method brings its own bonus, unless it is the one configured here.
        methods: of `METHODS`.
        seeds: how many, from the seed of `config` on.

    Returns:
        0; 1 if a run failed; or the code of the signal that stopped it.
    """
    cells = make_cells(config, methods, seeds)
    _try_bonuses(config, methods)
    if config.wandb:
        require_wandb()
    folder = (config.root / (config.name or plain_name("compare", config.env.id))).resolve()
    task = Task(folder, own_command())
    settings = {"steps": config.steps, "seeds": seeds, "games": [config.env.id], "methods": list(methods)}
    enter(folder, Plan(SCHEMA, "compare", mmrs.__version__, task.command, settings, cells), CONFIGS)
    schedule = Schedule(folder, cells, retries=0)
    engine = LocalEngine(task, _jobs(config, len(cells)), Resources(config.threads, 0.0))
    try:
        display = Display({c.name: config.steps for c in cells}, quiet=config.quiet)
        with StopSignals(display.announce) as stop, display:
            schedule.run(engine, lambda: stop.requested, lambda: _show(schedule, display))
            _show(schedule, display)
    finally:
        engine.close()
    if stop.requested:
        _say(f"Stopped and saved in {folder}. The same command goes on.", lasting_console())
        return stop.exit_code
    return _conclude(schedule, config, cells)


def _jobs(config: TrainConfig, runs: int) -> int:
    """Runs at a time."""
    return max(1, min(usable_cores() // config.threads, runs))


def make_cells(config: TrainConfig, methods: Sequence[str], seeds: int) -> tuple[Cell, ...]:
    """One run a method and seed."""
    if not methods:
        raise InputError(f"--compare names no method. Known: {', '.join(METHODS)}.")
    if seeds < 1:
        raise InputError(f"the number of seeds is {seeds}, expected at least 1.")
    for method in methods:
        if method not in METHODS:
            raise InputError(f"there is no method {method!r} to compare. {near_matches(method, METHODS)}")
    _refuse_idle_options(config, methods)
    check(config)
    # Runs share the machine well only where they count threads.
    runs = seeds * len(set(methods))
    several = runs > 1 and config.env.threads is None
    share = max(config.threads, usable_cores() // _jobs(config, runs))
    env = replace(config.env, threads=share) if several else config.env
    cells = []
    for seed in range(config.seed, config.seed + seeds):
        for method in dict.fromkeys(methods):
            name = plain_name(method, str(seed))
            run = replace(config, env=env, bonus=_bonus(config, method), seed=seed, root=Path(), name=name, quiet=True)
            cells.append(Cell(name, "train", config.env.id, method, seed, to_json(run)))
    return tuple(cells)


def _bonus(config: TrainConfig, method: str) -> BonusConfig:
    return config.bonus if method == config.bonus.name else training_method(config.env.id, method, 0).bonus


def _refuse_idle_options(config: TrainConfig, methods: Sequence[str]) -> None:
    """Refuse options of a bonus that is not compared: they would change nothing."""
    name, unchanged = config.bonus.name, [preset.bonus for preset in EVERY_PRESET.values()]
    if name not in (*methods, "none") and config.bonus not in (default_bonus(name), *unchanged):
        raise InputError(
            f"the options of the bonus are those of {name}, which is not compared ({', '.join(methods)} are). "
            f"Say whose they are, for example --bonus {methods[-1]}."
        )


def _try_bonuses(config: TrainConfig, methods: Sequence[str]) -> None:
    """Refuse, before anything is trained, methods that cannot read the environment."""
    with closing(build_envs(replace(config.env, vectorization="sync"), num_envs=1)) as envs:
        for method in methods:
            build_bonus(_bonus(config, method), envs, 1, config.seed)


def _show(schedule: Schedule, display: Display) -> None:
    """Hand the newest row of each run to the display."""
    for name, job in schedule.jobs.items():
        shown = display.runs[name]
        if job.state == "waiting" or shown.note:
            continue
        row = last_row(schedule.folder / name / "metrics.jsonl")
        if row.get("step", 0) > shown.step:
            display.update(name, row)
        if job.state in ("finished", "failed"):
            display.note(name, "done" if job.state == "finished" else "failed")


def _conclude(schedule: Schedule, config: TrainConfig, cells: tuple[Cell, ...]) -> int:
    failed = [job for job in schedule.jobs.values() if job.state == "failed"]
    for job in failed:
        _say(f"{job.cell.name} failed:\n{job.error.strip()}", lasting_console())
    finished = [cell for cell in cells if schedule.jobs[cell.name].state == "finished"]
    if finished:
        tell(schedule.folder, config, finished, lasting_console(stderr=False))
    return 1 if failed else 0


def tell(folder: Path, config: TrainConfig, cells: Sequence[Cell], console: Console) -> None:
    """What came out of finished runs: a table, and a page, with a film where one can be made."""
    comparison = read_comparison(folder, config, cells)
    console.print(summary(comparison))
    try:
        method, content = film(folder, comparison)
        comparison = replace(comparison, film=content, film_of=method)
    except MmrsError as error:  # an extra is missing, or the environment draws nothing
        _say(f"No film: {error}", console)
    try:
        _say(f"page: {write_comparison_page(folder / PAGE, comparison)}", console)
    except MissingExtraError as error:
        _say(f"No page: {error}", console)


def _say(text: str, console: Console) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def summary(comparison: Comparison) -> Table:
    """What came out, a row a method, the mean over its seeds."""
    table = Table(title=comparison.title, box=box.SIMPLE, title_justify="left")
    table.add_column("method")
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for method in comparison.methods:
        table.add_row(method.name, *method.row())
    return table
