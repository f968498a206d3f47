"""`mmrs bounds`: tests of Lemmas 1 and 2 with independent visits and with walks in mazes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from mmrs.envs.maze.maze import KINDS, check_size, generate_many
from mmrs.errors import InputError, require_packages
from mmrs.paper.bounds import simulate as sim
from mmrs.paper.bounds.figures import draw_bounds
from mmrs.paper.bounds.tables import BoundsResult, LiteralLemma2, Rate, bounds_tables
from mmrs.runs.console import print_untruncated
from mmrs.storage.files import output_folder, write_atomic

LARGEST_MAZE = 40
"""The stationary distribution of a walk is computed exactly, which takes S³ operations."""


@dataclass(frozen=True)
class BoundsConfig:
    """Test the bounds of Lemmas 1 and 2 by simulation. The defaults take about twenty seconds on two cores."""

    out: Path = Path("runs/bounds")
    """Folder for bounds.json and the figures."""
    delta: float = 0.05
    """δ, the maximum probability with which the bounds should fail."""
    states: tuple[int, ...] = (16, 100, 400, 2500, 10_000)
    """S, the sizes of the state space for independent visits."""
    samples: tuple[int, ...] = (128, 1024, 10_000, 100_000)
    """n, the number of independent visits per record."""
    runs: int = 2000
    """Number of records per distribution, S and n (fewer, down to 200, where S is large)."""
    maze_sizes: tuple[int, ...] = (10, 20)
    """Sides of the mazes to walk in; without any, there are no walks."""
    mazes: int = 100
    """Number of mazes per kind and size."""
    walks: int = 10
    """Number of random walks per maze."""
    steps: tuple[int, ...] = (1000, 10_000, 100_000)
    """T, the numbers of steps after which the visits of a walk are counted."""
    seed: int = 20240607
    """Seed of all draws."""

    def check(self) -> None:
        """Raise `InputError` if the configuration cannot be simulated."""
        if not 0.0 < self.delta < 1.0:
            raise InputError(f"delta must lie between 0 and 1, got {self.delta}.")
        least = {"states": 2, "samples": 2, "steps": 1}
        for name, low in least.items():
            values = getattr(self, name)
            if not values or min(values) < low:
                raise InputError(f"{name} must name at least one number, each {low} or more, got {values}.")
        for name in ("runs", "mazes", "walks"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for size in self.maze_sizes:
            check_size(size)
            if size > LARGEST_MAZE:
                raise InputError(f"Mazes for the bounds may have {LARGEST_MAZE} cells per side, not {size}.")


def simulate(config: BoundsConfig) -> BoundsResult:
    """Measure everything that `mmrs bounds` shows; the same configuration gives the same results."""
    config.check()
    began = time.perf_counter()
    rng = np.random.default_rng(config.seed)
    return BoundsResult(
        config=asdict(config) | {"out": str(config.out)},
        cells=(*_independent(config, rng), *_walks(config, rng)),
        constants=tuple(_constants(rng)),
        as_written=tuple(_literal_lemma2()),
        rates=tuple(_rate(law, rng) for law in ("zipf", "uniform")),
        seconds=time.perf_counter() - began,
    )


def bounds(config: BoundsConfig) -> None:
    """Measure, print the tables, and write bounds.json and the figures."""
    config.check()
    require_packages(matplotlib="report")
    folder = output_folder(config.out)
    result = simulate(config)
    plain = result.to_dict()
    paths = [write_atomic(folder / "bounds.json", json.dumps(plain, indent=1) + "\n")]
    paths += draw_bounds(plain, folder)
    console = Console()
    for table in bounds_tables(result):
        if isinstance(table, str):
            console.print(table, soft_wrap=True)
        else:
            print_untruncated(table, console)
    console.print(f"{result.seconds:.1f} s. Written: " + ", ".join(map(str, paths)), soft_wrap=True)


def _independent(config: BoundsConfig, rng: np.random.Generator) -> Iterator[sim.EstimateErrors]:
    for law in sim.DISTRIBUTIONS:
        for states in config.states:
            d = sim.distribution(law, states)
            # A large S averages within a record, so fewer records give the same precision.
            runs = min(config.runs, max(200, 2_000_000 // states))
            for n in config.samples:
                yield sim.measure(f"iid {law}", rng.multinomial(n, d, size=runs), d, config.delta)


def _walks(config: BoundsConfig, rng: np.random.Generator) -> Iterator[sim.EstimateErrors]:
    for kind in KINDS:
        for size in config.maze_sizes:
            seeds = np.arange(1, config.mazes + 1, dtype=np.uint64)
            next_state = generate_many(size, kind, seeds).next_state
            law = np.repeat(sim.stationary_law(next_state), config.walks, axis=0)  # [N * walks, S]
            for counts in sim.walk_counts(next_state, config.walks, config.steps, rng):
                yield sim.measure(f"walk {kind}", counts, law, config.delta)


def _constants(rng: np.random.Generator) -> Iterator[dict[str, float]]:
    d = sim.distribution("uniform", 100)
    deltas = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
    required = sim.required_constant(rng.multinomial(1024, d, size=20_000), d, deltas)
    for delta, c in zip(deltas, required, strict=True):
        yield {"delta": delta, "needed": c, "proof": sim.proof_constant(delta)}


def _literal_lemma2() -> Iterator[LiteralLemma2]:
    for states in (2, 3, 4, 5, 8, 16, 100):
        p, std = sim.worst_two_point_law(states)
        failed = {str(d): sim.literal_lemma2_violation(states, 10_000, d) for d in (0.05, 0.01, 0.001)}
        yield LiteralLemma2(states, p, std, failed)


def _rate(law: str, rng: np.random.Generator) -> Rate:
    d = sim.distribution(law, 100)
    samples = tuple(int(n) for n in np.logspace(4, 6, 9).round())
    truth = -float(np.sum(d * np.log(d)))
    errors = [np.sqrt(np.mean((sim.plug_in(rng.multinomial(n, d, size=1000)) - truth) ** 2)) for n in samples]
    slope = np.polyfit(np.log(samples), np.log(errors), 1)[0]
    return Rate(law, samples, tuple(float(e) for e in errors), float(slope))
