"""The settings of the maze page in words: those of its two walks, and those of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mmrs.agents.maze_options import METHODS, POTENTIALS, WalkOptions
from mmrs.report.maze_data import TraceData, label

NUMBERS = ("lambda_g", "penalty_weight", "gamma_g", "gamma", "alpha", "epsilon", "episode_cap", "step_cap")
FLAGS = ("lifelong_counts", "goal_potential_zero", "first_ties")


def walk_settings(trace: TraceData) -> list[tuple[str, str]]:
    """Name and value of every setting that had a say in these walks; where two differ, each with its method."""
    rows = ((name, _values(trace, text)) for name, text in _readers(trace.size * trace.size).items())
    return [(name, value) for name, value in rows if value]


def table_settings(config: Mapping[str, Any]) -> str:
    """The settings of a run as the command line names them; switches only where they are on."""
    numbers = [f"{name} = {config[name]:g}" for name in NUMBERS if name in config]
    return ", ".join(numbers + [name for name in FLAGS if config.get(name)])


def _values(trace: TraceData, text: Callable[[WalkOptions], str | None]) -> str:
    said = {label(walk.method): value for walk in trace.runs if (value := text(walk.options)) is not None}
    if len(set(said.values())) < 2:
        return next(iter(said.values()), "")
    return ", ".join(f"{value} ({name})" for name, value in said.items())


def _readers(cells: int) -> dict[str, Callable[[WalkOptions], str | None]]:
    """How each setting is read; None where it has no say."""
    return {
        "goal": lambda o: f"pays {o.goal_reward:g} and ends the episode" if o.goal_ends else "an ordinary cell",
        "weight λ_G": lambda o: None if METHODS[o.method] in ("vanilla", "random_walk") else f"{o.weight:g}",
        "discount γ_G inside G": lambda o: f"{o.gamma_g:g}" if METHODS[o.method] in POTENTIALS else None,
        "J at the goal": _goal_potential,
        "visits counted": lambda o: "over the whole run" if o.lifelong else "in each episode",
        "discount γ": lambda o: f"{o.gamma:g}",
        "learning rate α": lambda o: f"{o.alpha:g}",
        "random actions ε": lambda o: f"{o.epsilon:g}",
        "ties": lambda o: "the first action" if o.first_ties else "at random",
        "longest episode": lambda o: f"{o.episode_cap:,} steps ({o.episode_cap / cells:g} S)",
        "given up after": lambda o: f"{o.step_cap:,} steps ({o.step_cap / cells:g} S)",
    }


def _goal_potential(options: WalkOptions) -> str | None:
    if not options.goal_ends or METHODS[options.method] not in POTENTIALS:
        return None
    return "taken as 0" if options.goal_potential_zero else "as anywhere"
