"""The maze experiment: steps until every cell has been seen, with and without an intrinsic reward."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mmrs.envs.maze.maze import check_kind, check_size, generate_many
from mmrs.errors import InputError, MissingExtraError, did_you_mean
from mmrs.paper.maze.figures import draw_maze_figure
from mmrs.paper.maze.options import METHODS, WalkOptions, walk_options
from mmrs.paper.maze.page import LARGEST_MAZE, write_maze_page
from mmrs.paper.maze.results import MazeResult, MazeRow, trace
from mmrs.paper.maze.summary import summarize
from mmrs.paper.maze.table import show
from mmrs.storage.files import output_folder, write_atomic

PROTOCOLS = ("coverage", "literal")
Steps = NDArray[np.int64]


@dataclass(frozen=True)
class MazeConfig:
    """Steps until every cell of a maze has been seen, by Q-learning with and without an intrinsic reward."""

    sizes: tuple[int, ...] = (5, 10, 20)
    """Sides M of the mazes; 50 and 100 take a few seconds more."""
    kinds: tuple[str, ...] = ("plus", "perfect")
    """Kinds of maze: `plus` has loops and portals, `perfect` has neither."""
    methods: tuple[str, ...] = ("vanilla", "jfi")
    """Methods: vanilla (always run), jfi, entropy, coverage, count_bonus, count_penalty, exp_decay, random_walk."""
    mazes: int = 1000
    """Number of mazes per row of the table; simulation i draws maze and agent from seed first_seed + i."""
    first_seed: int = 0
    """Seed of the first simulation."""
    protocol: str = "coverage"
    """`coverage` (A): the goal is an ordinary cell. `literal` (B): the goal pays 1 and ends the episode."""
    lambda_g: float = 0.1
    """Weight of every intrinsic reward but the count penalty."""
    penalty_weight: float = 1.0
    """Weight of the count penalty."""
    gamma_g: float = 1.0
    """Discount inside G = gamma_g J(t+1) - J(t); in the paper it is the gamma of Q-learning."""
    gamma: float = 0.99
    """Discount of Q-learning."""
    alpha: float = 0.2
    """Learning rate."""
    epsilon: float = 0.001
    """Probability of a random action."""
    episode_cap: int = 10
    """Maximum length of an episode, in units of M² steps."""
    step_cap: int = 1000
    """Maximum length of a run, in units of M² steps; a run that reaches it counts as censored."""
    lifelong_counts: bool = False
    """Count visits over the whole run rather than in each episode."""
    goal_potential_zero: bool = False
    """In the literal protocol, take J = 0 at the goal."""
    first_ties: bool = False
    """Take the first of several best actions rather than a random one."""
    out: Path = Path("runs/maze")
    """Folder for maze.json, the page and the figure."""
    page_size: int = 20
    """Side of the sample maze on the page and in the figure, a `plus` maze drawn from first_seed."""


def check(config: MazeConfig) -> None:
    """Refuse a configuration that cannot be run, before any work."""
    for name, values in (("sizes", config.sizes), ("kinds", config.kinds), ("methods", config.methods)):
        if not values:
            raise InputError(f"{name} is empty: name at least one")
    for size in config.sizes:
        check_size(size)
    for kind in config.kinds:
        check_kind(kind)
    for method in config.methods:
        if method not in METHODS:
            raise InputError(f"unknown method {method!r}. {did_you_mean(method, METHODS)}")
    if config.protocol not in PROTOCOLS:
        raise InputError(f"unknown protocol {config.protocol!r}. {did_you_mean(config.protocol, PROTOCOLS)}")
    _check_ranges(config)
    _options(config, config.methods[0], config.sizes[0])  # refuses values outside [0, 1]


def run(config: MazeConfig, progress: Progress | None = None) -> MazeResult:
    """Compute every row of the table; nothing is written."""
    check(config)
    began = time.perf_counter()
    groups = [(kind, size) for kind in dict.fromkeys(config.kinds) for size in dict.fromkeys(config.sizes)]
    task = progress.add_task("mazes", total=config.mazes * len(groups)) if progress else None
    rows: list[MazeRow] = []
    unreachable = {}
    for kind, size in groups:

        def advance(mazes: int, label: str = f"{kind} {size}x{size}") -> None:
            if progress and task is not None:
                progress.update(task, advance=mazes, description=label)

        group, unreachable[f"{kind} {size}"] = _run_group(config, kind, size, advance)
        rows += group
    return MazeResult(
        protocol=config.protocol,
        config={**asdict(config), "out": str(config.out)},
        rows=tuple(rows),
        unreachable=unreachable,
        seconds=time.perf_counter() - began,
        env_steps=sum(sum(row.steps) for row in rows),
    )


def maze(config: MazeConfig) -> None:
    """Run the maze experiment, print its table and write `maze.json`, the interactive page and the figure."""
    check(config)
    folder = output_folder(config.out)
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        result = run(config, progress)
    path = write_atomic(folder / "maze.json", json.dumps(result.to_dict()) + "\n")
    show(result, console)
    console.print(f"results: {path}", highlight=False, soft_wrap=True)
    _draw(config, result, folder, console)


def _check_ranges(config: MazeConfig) -> None:
    for name in ("mazes", "episode_cap", "step_cap"):
        if getattr(config, name) < 1:
            raise InputError(f"{name} must be at least 1, not {getattr(config, name)}")
    if not 0 <= config.first_seed < 2**62:
        raise InputError(f"first_seed must lie between 0 and 2**62, not {config.first_seed}")
    for name in ("lambda_g", "penalty_weight"):
        if not np.isfinite(getattr(config, name)):
            raise InputError(f"{name} must be a finite number, not {getattr(config, name)}")
    if not 2 <= config.page_size <= LARGEST_MAZE:
        raise InputError(f"page_size must lie between 2 and {LARGEST_MAZE}, not {config.page_size}")


def _run_group(config: MazeConfig, kind: str, size: int, advance: Callable[[int], None]) -> tuple[list[MazeRow], float]:
    """Run all methods on the same mazes of one kind and size; also returns the fraction of mazes drawn again."""
    from mmrs.paper.maze.kernel import walk_many  # noqa: PLC0415  numba takes a while to import

    methods = ("vanilla", *(m for m in dict.fromkeys(config.methods) if m != "vanilla"))
    options = {method: _options(config, method, size) for method in methods}
    walked: dict[str, list[tuple[Steps, Steps]]] = {method: [] for method in methods}
    redrawn = 0
    for seeds in _blocks(config, size):
        batch = generate_many(size, kind, seeds, _goal(config))
        redrawn += int((batch.draws > 1).sum())
        for method in methods:
            walked[method].append(walk_many(batch.next_state, options[method], seeds))
        advance(len(seeds))
    steps = {method: np.concatenate([s for s, _ in walked[method]]) for method in methods}
    covered = {method: np.concatenate([c for _, c in walked[method]]) for method in methods}
    rows = [
        summarize(kind, size, options[method], steps[method], covered[method], steps["vanilla"]) for method in methods
    ]
    return rows, redrawn / config.mazes


def _draw(config: MazeConfig, result: MazeResult, folder: Path, console: Console) -> None:
    """Write the page and the figure: vanilla and the first other method in a sample maze, and the bars of `result`."""
    others = [method for method in config.methods if method != "vanilla"]
    walks = [_options(config, method, config.page_size) for method in ("vanilla", *others[:1])]
    sample = trace(config.page_size, "plus", config.first_seed, walks)
    try:
        written = [write_maze_page(folder / "maze.html", sample, result), *draw_maze_figure(sample, result, folder)]
    except MissingExtraError as error:
        # The results are already saved; a missing extra for the pictures is no reason to fail.
        console.print(f"no page and no figure: {error}", highlight=False, markup=False, soft_wrap=True)
        return
    for path in written:
        console.print(f"{'page' if path.suffix == '.html' else 'figure'}: {path}", highlight=False, soft_wrap=True)


def _goal(config: MazeConfig) -> str:
    """How the generator treats the goal: a goal that ends the episode makes the cells behind it unreachable."""
    return "terminal" if config.protocol == "literal" else "inert"


def _options(config: MazeConfig, method: str, size: int) -> WalkOptions:
    return walk_options(
        method,
        size,
        weight=config.penalty_weight if method == "count_penalty" else config.lambda_g,
        gamma_g=config.gamma_g,
        gamma=config.gamma,
        alpha=config.alpha,
        epsilon=config.epsilon,
        episode_cap=config.episode_cap * size * size,
        step_cap=config.step_cap * size * size,
        lifelong=config.lifelong_counts,
        goal_ends=config.protocol == "literal",
        goal_potential_zero=config.goal_potential_zero,
        first_ties=config.first_ties,
    )


def _blocks(config: MazeConfig, size: int) -> Iterator[NDArray[np.uint64]]:
    """Seeds in blocks, small enough for a smooth progress bar and for Q tables that fit in memory."""
    block = max(8, 100_000 // (size * size))
    seeds = np.arange(config.first_seed, config.first_seed + config.mazes, dtype=np.uint64)
    return (seeds[i : i + block] for i in range(0, len(seeds), block))
