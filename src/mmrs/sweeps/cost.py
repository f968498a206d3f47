"""`mmrs cost`: time and price of a suite on this machine, on several such machines and on a cluster."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from mmrs.errors import InputError
from mmrs.sweeps.command import SweepConfig, choose_resources, choose_specs, default_jobs
from mmrs.sweeps.engines.base import Resources
from mmrs.sweeps.speed_probe import Pair, measure
from mmrs.sweeps.suites import RunSpec, start_order


@dataclass(frozen=True)
class CostConfig:
    """Measure this machine for about a minute and estimate how long a suite would take."""

    suite: Annotated[str, tyro.conf.Positional]
    """Name of the suite: smoke, gridworld, maze, rooms, atari, bullet, vanishing."""
    steps: int | None = None
    """Agent steps per run. Default: those of the suite."""
    seeds: int | None = None
    """Number of seeds. Default: that of the suite."""
    games: tuple[str, ...] = ()
    """Environments. Default: all of the suite."""
    methods: tuple[str, ...] = ()
    """Methods. Default: those of the suite."""
    imports: Annotated[tuple[str, ...], tyro.conf.arg(name="import")] = ()
    """Modules of your own to import first, by name or path."""
    jobs: int | None = None
    """Runs at a time on this machine. Default: as `mmrs sweep` would choose."""
    threads: int = 1
    """Threads per run."""
    device: str = "auto"
    """"cpu", "cuda" or "auto": a GPU if there is one."""
    gpu_share: float | None = None
    """Share of a GPU per run. Default: a quarter where there is a GPU."""
    machines: int = 10
    """Number of machines like this one to estimate the time for."""
    cpus: int | None = None
    """Cores of a Ray cluster to estimate the time for, each as fast as one here."""
    gpus: int = 0
    """GPUs of that cluster, each as fast as one here; they matter where this machine measures on one."""
    price: float | None = None
    """Price per hour of a machine like this one, in any currency. A cluster is priced by its share of such machines."""
    seconds: float = 60.0
    """Seconds to measure for. Every method gets at least two updates, so it can take longer."""
    shared: bool = False
    """Count processor time instead of wall-clock time, because this machine does other work now (not with a GPU)."""


@dataclass(frozen=True)
class CostEstimate:
    """Time that the runs take with a number of slots."""

    title: str
    slots: int
    """Runs at a time."""
    seconds: float
    """Time from the first start to the last end."""
    busy: float
    """Share of the slots' time that is used; the rest is idle while the last runs end."""


def cost(config: CostConfig) -> None:
    """Measure, and print the estimates."""
    if config.machines < 1 or (config.cpus is not None and config.cpus < 1) or config.gpus < 0:
        raise InputError("machines and cpus must be at least 1, and gpus at least 0.")
    names = ("suite", "steps", "seeds", "games", "methods", "imports", "jobs", "threads", "device", "gpu_share")
    sweep = SweepConfig(**{name: getattr(config, name) for name in names})
    specs = choose_specs(sweep)
    resources, gpus = choose_resources(sweep)
    jobs = min(config.jobs or default_jobs(resources, len(gpus)), len(specs))
    console = Console()
    if config.shared and resources.gpu:
        raise InputError(
            "--shared counts processor time, which does not include a GPU. Add --device cpu or leave --shared out."
        )
    measured = measure(specs, jobs, config.seconds, gpus=gpus if resources.gpu else (), shared=config.shared)
    seconds = [run_seconds(spec, specs, measured) for spec in start_order(specs)]
    console.print(_speeds(specs, measured, jobs))
    kinds = len({(spec.env, spec.method) for spec in specs})
    console.print(f"{len(measured)} of {kinds} kinds of run were measured; the others are computed from them.")
    plans = [
        estimate("this machine", seconds, jobs),
        estimate(f"{config.machines} such machines", seconds, jobs * config.machines),
    ]
    if config.cpus is not None:
        slots = _cluster_slots(config, resources)
        plans.append(estimate(f"a cluster of {config.cpus} cores, {config.gpus} GPUs", seconds, slots))
    plans.append(estimate("one slot per run", seconds, len(seconds)))
    console.print(_plans(plans, config.price, jobs))
    total, longest = sum(seconds), max(seconds)
    console.print(
        f"{len(specs)} runs, {_time(total)} of one slot's time. The time falls in proportion up to about "
        f"{max(1, round(total / longest))} slots; the longest run, {_time(longest)}, is the lower limit.",
        highlight=False,
        soft_wrap=True,
    )


def run_seconds(spec: RunSpec, specs: Sequence[RunSpec], measured: dict[Pair, float]) -> float:
    """Seconds of a whole run: measured, or the cost of its environment plus that of its method.

    Stepping depends on the environment. The bonus depends on the form of the observations, which the environments of a
    suite mostly share, so the cost that a method adds is taken from the environment where it was measured. Environments
    that were not measured count as the mean of those that were.
    """
    if (spec.env, spec.method) in measured:
        return measured[spec.env, spec.method]
    base_env, base_method = specs[0].env, specs[0].method
    known = [value for (_, method), value in measured.items() if method == base_method]
    base = measured[base_env, base_method]
    env = measured.get((spec.env, base_method), sum(known) / len(known))
    method = measured[base_env, spec.method]
    return max(env + method - base, min(env, method))


def estimate(title: str, seconds: Sequence[float], slots: int) -> CostEstimate:
    """Simulate the sweep: each run, in order, goes to the slot that is free first."""
    slots = max(1, min(slots, len(seconds)))
    free = [0.0] * slots
    for duration in seconds:
        heapq.heapreplace(free, free[0] + duration)
    end = max(free)
    return CostEstimate(title, slots, end, sum(seconds) / (end * slots))


def _cluster_slots(config: CostConfig, resources: Resources) -> int:
    assert config.cpus is not None
    by_cores = config.cpus // resources.threads
    return min(by_cores, int(config.gpus / resources.gpu)) if resources.gpu and config.gpus else by_cores


def _speeds(specs: Sequence[RunSpec], measured: dict[Pair, float], jobs: int) -> Table:
    table = Table(title=f"Measured, {jobs} run{'s' * (jobs > 1)} side by side", title_justify="left")
    for name in ("environment", "method"):
        table.add_column(name)
    for name in ("steps/s per run", "time per run"):
        table.add_column(name, justify="right")
    steps = {(spec.env, spec.method): int(spec.config.get("steps", 0)) for spec in specs}
    for (env, method), seconds in measured.items():
        speed = f"{steps[env, method] / seconds:,.0f}" if steps[env, method] else "–"
        table.add_row(env, method, speed, _time(seconds))
    return table


def _plans(plans: Sequence[CostEstimate], price: float | None, jobs: int) -> Table:
    table = Table(title="The whole suite", title_justify="left")
    table.add_column("machines")
    for name in ("runs at a time", "time", "busy", *(["price"] if price is not None else [])):
        table.add_column(name, justify="right")
    for plan in plans:
        row = [plan.title, f"{plan.slots:,}", _time(plan.seconds), f"{plan.busy:.0%}"]
        if price is not None:
            row.append(f"{price * plan.seconds / 3600 * plan.slots / jobs:,.2f}")
        table.add_row(*row)
    return table


def _time(seconds: float) -> str:
    """A duration in a unit that is easy to read."""
    for size, name in ((86400 * 365.25, "years"), (86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:,.1f} s"
