"""`mmrs sweep`: start or continue a suite of runs and bring it to its end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

import mmrs
from mmrs.errors import InputError, require_packages
from mmrs.runs.build import choose_device
from mmrs.runs.console import resilient_console
from mmrs.runs.history import ERROR, current_command
from mmrs.runs.signals import EXIT_CODES, StopSignals
from mmrs.runs.threads import usable_cores
from mmrs.sweeps.engines.base import Engine, Resources, SweepContext
from mmrs.sweeps.engines.local import LocalEngine, visible_gpus
from mmrs.sweeps.job import CONFIGS
from mmrs.sweeps.plan import SCHEMA, Plan, grid_summary, require_one_version, write_or_merge
from mmrs.sweeps.progress import SweepTable, grid
from mmrs.sweeps.scheduler import Scheduler
from mmrs.sweeps.suites import RunSpec, expand_suite, find_suite

GPU_SHARE = 0.25
"""Share of a GPU per run, where there is one: the networks are small, and one run leaves most of it idle."""
_ENGINE_PACKAGES = {"ray": {"ray": "ray"}, "slurm": {"submitit": "slurm"}}
_TRACEBACK_LINES = 12
"""Lines of a traceback printed at the end; the folder of the run holds all of it."""


@dataclass(frozen=True)
class SweepConfig:
    """Bring all runs of a suite to their ends. Start the same command again after any stop: it continues."""

    suite: Annotated[str, tyro.conf.Positional]
    """Name of the suite: smoke, gridworld, maze, rooms, atari, bullet, vanishing."""
    steps: int | None = None
    """Agent steps per run. Default: those of the suite."""
    seeds: int | None = None
    """Number of seeds. Default: that of the suite."""
    games: tuple[str, ...] = ()
    """Environments, by id or plain name. Default: all of the suite."""
    methods: tuple[str, ...] = ()
    """Methods: ppo, mmrs-paper or any reward of `mmrs list`. Default: those of the suite."""
    imports: Annotated[tuple[str, ...], tyro.conf.arg(name="import")] = ()
    """Modules of your own to import first, here and in every run, by name or path: rewards and environments."""
    out: Path | None = None
    """Folder of the sweep. Default: runs/SUITE."""
    engine: Literal["local", "ray", "slurm"] = "local"
    """Where runs are executed: processes on this machine, tasks on Ray, or jobs on Slurm."""
    address: str | None = None
    """Address of a running Ray cluster that sees --out under the same path. Default: start Ray on this machine."""
    slurm: tuple[str, ...] = ()
    """Parameters of Slurm as submitit names them, for example: slurm_partition=gpu timeout_min=1440."""
    jobs: int | None = None
    """Runs at a time. Default: as many as the cores, and the GPUs where they are used, have room for."""
    threads: int = 1
    """Threads per run. One is best while there are more runs than cores."""
    device: str = "auto"
    """"cpu", "cuda" or "auto": a GPU if there is one."""
    gpu_share: float | None = None
    """Share of a GPU per run, from 0 to 1. Default: a quarter where there is a GPU."""
    retries: int = 2
    """How often a run that failed is retried before it is reported as failed."""
    mix_versions: bool = False
    """Continue although other versions of mmrs made some of the runs."""
    dry_run: bool = False
    """Only show what is left to do."""
    quiet: bool = False
    """Show no progress; failures are still printed at the end."""


def sweep(config: SweepConfig) -> int:
    """Run a sweep; returns 0 if every run finished, 1 if some failed, or the code of the signal that stopped it."""
    specs = choose_specs(config)
    folder = (config.out or Path("runs") / config.suite).resolve()
    context = SweepContext(folder, current_command())
    settings = {"steps": config.steps, **grid_summary(specs)}
    plan = Plan(SCHEMA, config.suite, mmrs.__version__, context.command, settings, specs)
    if not config.mix_versions:
        require_one_version(folder, specs)
    if config.dry_run:
        return _print_progress(Scheduler(folder, specs, config.retries))
    require_packages(**_ENGINE_PACKAGES.get(config.engine, {}))
    write_or_merge(folder, plan, CONFIGS)
    scheduler = Scheduler(folder, specs, config.retries)
    table = SweepTable(config.suite, scheduler, quiet=config.quiet)
    engine = make_engine(config, context)
    try:
        with StopSignals(table.announce) as stop, table:
            scheduler.run(engine, lambda: stop.requested, table.refresh)
    finally:
        engine.close()
    return _conclude(scheduler, table, stop)


def make_engine(config: SweepConfig, context: SweepContext) -> Engine:
    """The engine that executes the runs of a sweep."""
    resources, gpus = choose_resources(config)
    if config.engine == "ray":
        from mmrs.sweeps.engines.ray import RayEngine  # noqa: PLC0415  Ray is an optional extra

        return RayEngine(context, config.jobs, resources, address=config.address)
    if config.engine == "slurm":
        from mmrs.sweeps.engines.slurm import SlurmEngine  # noqa: PLC0415  submitit is an optional extra

        return SlurmEngine(context, config.jobs, resources, config.slurm)
    if config.address:
        raise InputError("--address is the address of a Ray cluster; add --engine ray.")
    choose_device(config.device)  # refused once, here, and not in every run
    jobs = config.jobs or default_jobs(resources, len(gpus))
    return LocalEngine(context, jobs, resources, gpus if resources.gpu else ())


def choose_resources(config: SweepConfig) -> tuple[Resources, list[str]]:
    """What each run gets, and the GPUs to share."""
    gpus = [] if config.device == "cpu" else visible_gpus()
    return Resources(config.threads, _share(config, gpus)), gpus


def default_jobs(resources: Resources, gpus: int) -> int:
    """As many runs at a time as there are cores for, and shares of GPUs."""
    by_cores = max(1, usable_cores() // resources.threads)
    return min(by_cores, max(1, int(gpus / resources.gpu))) if gpus and resources.gpu else by_cores


def _share(config: SweepConfig, gpus: list[str]) -> float:
    share = config.gpu_share
    if share is not None and not 0 <= share <= 1:
        raise InputError(f"gpu_share is {share}, expected a number from 0 to 1.")
    if config.device == "cpu":
        return 0.0
    return share if share is not None else GPU_SHARE if gpus else 0.0


def choose_specs(config: SweepConfig) -> tuple[RunSpec, ...]:
    """The runs of the command, with their threads and device."""
    for name, least in (("threads", 1), ("retries", 0)):
        if getattr(config, name) < least:
            raise InputError(f"{name} is {getattr(config, name)}, expected at least {least}.")
    if config.jobs is not None and config.jobs < 1:
        raise InputError(f"jobs is {config.jobs}, expected at least 1.")
    suite = find_suite(config.suite)
    chosen = {name: getattr(config, name) for name in ("steps", "seeds", "games", "methods", "imports")}
    specs = expand_suite(suite, **chosen)
    return tuple(_with_resources(spec, config) for spec in specs)


def _with_resources(spec: RunSpec, config: SweepConfig) -> RunSpec:
    """The run with the threads and the device of this sweep."""
    if spec.kind != "train":
        return spec
    env = {**spec.config["env"], "threads": config.threads}
    return replace(spec, config={**spec.config, "threads": config.threads, "device": config.device, "env": env})


def _print_progress(scheduler: Scheduler) -> int:
    console = Console()
    console.print(grid(scheduler))
    finished = scheduler.counts()["finished"]
    console.print(f"{finished} of {len(scheduler.jobs)} runs are finished in {scheduler.folder}.", soft_wrap=True)
    return 0


def _conclude(scheduler: Scheduler, table: SweepTable, stop: StopSignals) -> int:
    """Print how the sweep ended, with every failure; returns the exit code."""
    console = resilient_console()
    failed = [job for job in scheduler.jobs.values() if job.state == "failed"]
    for job in failed:
        lines = job.error.strip().splitlines()
        path = scheduler.folder / job.spec.name / ERROR
        text = [f"{job.spec.name} failed ({path}):", *lines[-_TRACEBACK_LINES:]]
        console.print("\n".join(text), style="red", highlight=False, markup=False, soft_wrap=True)
    summary = f"{table.summary()}. {scheduler.skipped} were finished before. Folder: {scheduler.folder}"
    if stop.requested:
        summary += ". Stopped; the same command continues."
    console.print(summary, highlight=False, markup=False, soft_wrap=True)
    if stop.signal is not None:
        return EXIT_CODES[stop.signal]
    return 1 if failed else 0
