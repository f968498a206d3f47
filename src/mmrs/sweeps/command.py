"""`mmrs sweep`: a suite of runs from wherever it stands to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

import mmrs
from mmrs.errors import InputError
from mmrs.runs.build import choose_device, usable_cores
from mmrs.runs.console import lasting_console
from mmrs.runs.history import ERROR, own_command
from mmrs.runs.signals import EXIT_CODES, StopSignals
from mmrs.sweeps.engines.base import Engine, Resources, Task
from mmrs.sweeps.engines.local import LocalEngine, visible_gpus
from mmrs.sweeps.job import CONFIGS
from mmrs.sweeps.plan import SCHEMA, Plan, enter, extent, require_one_version
from mmrs.sweeps.progress import SweepTable, grid
from mmrs.sweeps.schedule import Schedule
from mmrs.sweeps.suites import Cell, cells_of, find_suite

GPU_SHARE = 0.25
"""Of a GPU a run, where there is one: the networks are small, and one run leaves most of it idle."""
_SHOWN = 12
"""Lines of a traceback printed at the end; the whole is in the folder of the run."""


@dataclass(frozen=True)
class SweepConfig:
    """Bring all runs of a suite to their ends. Start the same command again after any stop: it goes on."""

    suite: Annotated[str, tyro.conf.Positional]
    """Which: smoke, gridworld, maze, rooms, atari, bullet, vanishing."""
    steps: int | None = None
    """Agent steps a run; without it, the suite's."""
    seeds: int | None = None
    """Number of seeds; without it, the suite's."""
    games: tuple[str, ...] = ()
    """Only these environments, by id or plain name; without it, all of the suite."""
    methods: tuple[str, ...] = ()
    """Only these: ppo, mmrs-paper or any reward of `mmrs list`; without it, those of the suite."""
    out: Path | None = None
    """Folder of the sweep; without it, runs/SUITE."""
    engine: Literal["local", "ray", "slurm"] = "local"
    """Processes on this machine, tasks on Ray, or jobs on Slurm."""
    address: str | None = None
    """Of a running Ray cluster that sees --out under the same path; without it, Ray is started here."""
    slurm: tuple[str, ...] = ()
    """Parameters for Slurm as submitit names them, for example: slurm_partition=gpu timeout_min=1440."""
    jobs: int | None = None
    """Runs at a time; without it, as many as the cores, and the GPUs where they are used, can serve."""
    threads: int = 1
    """Threads a run. One is best while there are more runs than cores."""
    device: str = "auto"
    """"cpu", "cuda" or "auto": a GPU if there is one."""
    gpu_share: float | None = None
    """Share of a GPU a run takes, from 0 to 1; without it, a quarter where there is one."""
    retries: int = 2
    """How often a run that failed is tried again before it is given up and reported."""
    mix_versions: bool = False
    """Go on although other versions of mmrs made some of the runs."""
    dry_run: bool = False
    """Only show what there is to do."""
    quiet: bool = False
    """No display; failures are still told at the end."""


def sweep(config: SweepConfig) -> int:
    """Run a sweep; returns 0 if every run finished, 1 if some failed, or the code of the signal that stopped it."""
    cells = choose_cells(config)
    folder = (config.out or Path("runs") / config.suite).resolve()
    task = Task(folder, own_command())
    plan = Plan(SCHEMA, config.suite, mmrs.__version__, task.command, {"steps": config.steps, **extent(cells)}, cells)
    if not config.mix_versions:
        require_one_version(folder, cells)
    if config.dry_run:
        return _show_only(Schedule(folder, cells, config.retries))
    enter(folder, plan, CONFIGS)
    schedule = Schedule(folder, cells, config.retries)
    table = SweepTable(config.suite, schedule, quiet=config.quiet)
    engine = make_engine(config, task)
    try:
        with StopSignals(table.announce) as stop, table:
            schedule.run(engine, lambda: stop.requested, table.refresh)
    finally:
        engine.close()
    return _report(schedule, table, stop)


def make_engine(config: SweepConfig, task: Task) -> Engine:
    """Where the runs of a sweep are made."""
    resources, gpus = choose_resources(config)
    if config.engine == "ray":
        from mmrs.sweeps.engines.ray import RayEngine  # noqa: PLC0415  Ray is an optional extra

        return RayEngine(task, config.jobs, resources, address=config.address)
    if config.engine == "slurm":
        from mmrs.sweeps.engines.slurm import SlurmEngine  # noqa: PLC0415  submitit is an optional extra

        return SlurmEngine(task, config.jobs, resources, config.slurm)
    if config.address:
        raise InputError("--address is of a Ray cluster; add --engine ray.")
    choose_device(config.device)  # refused once, here, and not by every run
    jobs = config.jobs or default_jobs(resources, len(gpus))
    return LocalEngine(task, jobs, resources, gpus if resources.gpu else ())


def choose_resources(config: SweepConfig) -> tuple[Resources, list[str]]:
    """What each run gets, and the GPUs there are to share."""
    gpus = [] if config.device == "cpu" else visible_gpus()
    return Resources(config.threads, _share(config, gpus)), gpus


def default_jobs(resources: Resources, gpus: int) -> int:
    """As many runs as the cores can feed, and as the GPUs have shares for."""
    by_cores = max(1, usable_cores() // resources.threads)
    return min(by_cores, max(1, int(gpus / resources.gpu))) if gpus and resources.gpu else by_cores


def _share(config: SweepConfig, gpus: list[str]) -> float:
    share = config.gpu_share
    if share is not None and not 0 <= share <= 1:
        raise InputError(f"gpu_share is {share}, expected a number from 0 to 1.")
    if config.device == "cpu":
        return 0.0
    return share if share is not None else GPU_SHARE if gpus else 0.0


def choose_cells(config: SweepConfig) -> tuple[Cell, ...]:
    """The runs asked for, with the threads and the device they get."""
    for name, least in (("threads", 1), ("retries", 0)):
        if getattr(config, name) < least:
            raise InputError(f"{name} is {getattr(config, name)}, expected at least {least}.")
    if config.jobs is not None and config.jobs < 1:
        raise InputError(f"jobs is {config.jobs}, expected at least 1.")
    suite = find_suite(config.suite)
    cells = cells_of(suite, steps=config.steps, seeds=config.seeds, games=config.games, methods=config.methods)
    return tuple(_placed(cell, config) for cell in cells)


def _placed(cell: Cell, config: SweepConfig) -> Cell:
    """The cell with the threads and the device of this sweep."""
    if cell.kind != "train":
        return cell
    env = {**cell.config["env"], "threads": config.threads}
    return replace(cell, config={**cell.config, "threads": config.threads, "device": config.device, "env": env})


def _show_only(schedule: Schedule) -> int:
    console = Console()
    console.print(grid(schedule))
    finished = schedule.counts()["finished"]
    console.print(f"{finished} of {len(schedule.jobs)} runs are finished in {schedule.folder}.", soft_wrap=True)
    return 0


def _report(schedule: Schedule, table: SweepTable, stop: StopSignals) -> int:
    """Say how it ended; nothing that failed is passed over."""
    console = lasting_console()
    failed = [job for job in schedule.jobs.values() if job.state == "failed"]
    for job in failed:
        lines = job.error.strip().splitlines()
        place = schedule.folder / job.cell.name / ERROR
        told = [f"{job.cell.name} failed ({place}):", *lines[-_SHOWN:]]
        console.print("\n".join(told), style="red", highlight=False, markup=False, soft_wrap=True)
    text = f"{table.summary()}. {schedule.skipped} were finished before. Folder: {schedule.folder}"
    if stop.requested:
        text += ". Stopped; the same command goes on."
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    if stop.signal is not None:
        return EXIT_CODES[stop.signal]
    return 1 if failed else 0
