"""`mmrs cost`: how long a suite would take here, on several such machines and on a cluster, and for how much."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from mmrs.errors import InputError
from mmrs.sweeps.command import SweepConfig, choose_cells, choose_resources, default_jobs
from mmrs.sweeps.engines.base import Resources
from mmrs.sweeps.speed_probe import Pair, measure
from mmrs.sweeps.suites import Cell, in_order


@dataclass(frozen=True)
class CostConfig:
    """Measure this machine for about a minute and say what a suite would take."""

    suite: Annotated[str, tyro.conf.Positional]
    """Which: smoke, gridworld, maze, rooms, atari, bullet, vanishing."""
    steps: int | None = None
    """Agent steps a run; without it, the suite's."""
    seeds: int | None = None
    """Number of seeds; without it, the suite's."""
    games: tuple[str, ...] = ()
    """Only these environments; without it, all of the suite."""
    methods: tuple[str, ...] = ()
    """Only these methods; without it, those of the suite."""
    jobs: int | None = None
    """Runs at a time on this machine; without it, as `mmrs sweep` would choose."""
    threads: int = 1
    """Threads a run."""
    device: str = "auto"
    """"cpu", "cuda" or "auto": a GPU if there is one."""
    gpu_share: float | None = None
    """Share of a GPU a run takes; without it, a quarter where there is one."""
    machines: int = 10
    """Number of machines like this one to tell the time for."""
    cpus: int | None = None
    """Cores of a Ray cluster to tell the time for, each as fast as one here."""
    gpus: int = 0
    """GPUs of that cluster, each as fast as one here; they matter where this machine measures on one."""
    price: float | None = None
    """Of an hour of a machine like this one, in any currency; a cluster is priced by its share of such machines."""
    seconds: float = 60.0
    """To measure for; every method gets at least two updates, so it can take longer."""
    shared: bool = False
    """This machine does other work now: count the processor's time rather than the clock's (not with a GPU)."""


@dataclass(frozen=True)
class Estimate:
    """What a number of places makes of the runs."""

    title: str
    slots: int
    """Runs at a time."""
    seconds: float
    """From the first start to the last end."""
    busy: float
    """Share of the places' time that is used; the rest waits for the last runs."""


def cost(config: CostConfig) -> None:
    """Measure and print."""
    if config.machines < 1 or (config.cpus is not None and config.cpus < 1) or config.gpus < 0:
        raise InputError("machines and cpus must be at least 1, and gpus at least 0.")
    names = ("suite", "steps", "seeds", "games", "methods", "jobs", "threads", "device", "gpu_share")
    sweep = SweepConfig(**{name: getattr(config, name) for name in names})
    cells = choose_cells(sweep)
    resources, gpus = choose_resources(sweep)
    jobs = min(config.jobs or default_jobs(resources, len(gpus)), len(cells))
    console = Console()
    if config.shared and resources.gpu:
        raise InputError(
            "--shared counts the processor's time, which says nothing of a GPU. Add --device cpu or leave it."
        )
    measured = measure(cells, jobs, config.seconds, gpus=gpus if resources.gpu else (), shared=config.shared)
    seconds = [seconds_of(cell, cells, measured) for cell in in_order(cells)]
    console.print(_speeds(cells, measured, jobs))
    kinds = len({(cell.env, cell.method) for cell in cells})
    console.print(f"{len(measured)} of {kinds} kinds of run were measured, the others follow from them.")
    plans = [
        estimate("this machine", seconds, jobs),
        estimate(f"{config.machines} of them", seconds, jobs * config.machines),
    ]
    if config.cpus is not None:
        slots = _cluster_slots(config, resources)
        plans.append(estimate(f"a cluster of {config.cpus} cores, {config.gpus} GPUs", seconds, slots))
    plans.append(estimate("a place for every run", seconds, len(seconds)))
    console.print(_plans(plans, config.price, jobs))
    total, longest = sum(seconds), max(seconds)
    console.print(
        f"{len(cells)} runs, {_time(total)} of one place's time. Time falls in proportion up to about "
        f"{max(1, round(total / longest))} places; the longest run, {_time(longest)}, is the least it can take.",
        highlight=False,
        soft_wrap=True,
    )


def seconds_of(cell: Cell, cells: Sequence[Cell], measured: dict[Pair, float]) -> float:
    """Of a whole cell: measured, or its environment's cost plus its method's.

    Stepping depends on the environment, and the bonus on the form of the observations, which a suite's environments
    mostly share: so what a method adds is taken from where it was measured. Environments that were not reached count
    as the mean of those that were.
    """
    if (cell.env, cell.method) in measured:
        return measured[cell.env, cell.method]
    base_env, base_method = cells[0].env, cells[0].method
    known = [value for (_, method), value in measured.items() if method == base_method]
    base = measured[base_env, base_method]
    env = measured.get((cell.env, base_method), sum(known) / len(known))
    method = measured[base_env, cell.method]
    return max(env + method - base, min(env, method))


def estimate(title: str, seconds: Sequence[float], slots: int) -> Estimate:
    """Play the sweep through: each run, in order, goes to the place that is free first."""
    slots = max(1, min(slots, len(seconds)))
    free = [0.0] * slots
    for duration in seconds:
        heapq.heapreplace(free, free[0] + duration)
    end = max(free)
    return Estimate(title, slots, end, sum(seconds) / (end * slots))


def _cluster_slots(config: CostConfig, resources: Resources) -> int:
    assert config.cpus is not None
    by_cores = config.cpus // resources.threads
    return min(by_cores, int(config.gpus / resources.gpu)) if resources.gpu and config.gpus else by_cores


def _speeds(cells: Sequence[Cell], measured: dict[Pair, float], jobs: int) -> Table:
    table = Table(title=f"Measured, {jobs} run{'s' * (jobs > 1)} side by side", title_justify="left")
    for name in ("environment", "method"):
        table.add_column(name)
    for name in ("steps/s a run", "one run takes"):
        table.add_column(name, justify="right")
    steps = {(cell.env, cell.method): int(cell.config.get("steps", 0)) for cell in cells}
    for (env, method), seconds in measured.items():
        speed = f"{steps[env, method] / seconds:,.0f}" if steps[env, method] else "–"
        table.add_row(env, method, speed, _time(seconds))
    return table


def _plans(plans: Sequence[Estimate], price: float | None, jobs: int) -> Table:
    table = Table(title="The whole suite", title_justify="left")
    table.add_column("on")
    for name in ("runs at a time", "takes", "busy", *(["price"] if price is not None else [])):
        table.add_column(name, justify="right")
    for plan in plans:
        row = [plan.title, f"{plan.slots:,}", _time(plan.seconds), f"{plan.busy:.0%}"]
        if price is not None:
            row.append(f"{price * plan.seconds / 3600 * plan.slots / jobs:,.2f}")
        table.add_row(*row)
    return table


def _time(seconds: float) -> str:
    """In the unit that a person would choose."""
    for size, name in ((86400 * 365.25, "years"), (86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.1f} s"
