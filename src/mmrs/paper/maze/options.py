"""The settings of a Q-learning walk through a maze, shared by the compiled loop and its plain reference."""

from __future__ import annotations

from typing import NamedTuple

from mmrs.errors import InputError, did_you_mean

METHODS = (
    "vanilla",
    "jfi",
    "entropy",
    "coverage",
    "count_bonus",
    "count_penalty",
    "exp_decay",
    "random_walk",
)
"""The index in this tuple is the `method` of `WalkOptions`."""
VANILLA, JFI, ENTROPY, COVERAGE, COUNT_BONUS, COUNT_PENALTY, EXP_DECAY, RANDOM_WALK = range(len(METHODS))
POTENTIALS = ("jfi", "entropy", "coverage")
"""Methods whose bonus is the gain of a potential; only they use gamma_g."""
DECAY = 0.1
"""Decay rate of the bonus exp(-0.1 n) of `exp_decay`."""
# Unstated: the paper gives no weight at all. 0.1 is the step cost of the maze, the largest weight for which
# no step of JFI pays a positive reward; a count penalty starts at 0 and needs more.
NATURAL_WEIGHT = {name: 1.0 if name == "count_penalty" else 0.1 for name in METHODS}


class WalkOptions(NamedTuple):
    """The settings of a walk; a named tuple of numbers and flags, so that compiled code can read it."""

    method: int
    """Index in `METHODS`."""
    weight: float
    """Weight of the intrinsic reward: lambda_g of the potentials, S times the scale of the count terms."""
    gamma_g: float
    """Discount inside G = gamma_g J(t+1) - J(t)."""
    gamma: float
    """Discount of Q-learning."""
    alpha: float
    """Learning rate."""
    epsilon: float
    """Probability of a random action."""
    episode_cap: int
    """Steps after which an episode is cut off; the last step is still bootstrapped."""
    step_cap: int
    """Steps after which a walk is stopped."""
    step_cost: float
    """Cost of a step, times S: a step costs step_cost / S."""
    goal_reward: float
    """Reward for entering a terminal goal, instead of the step cost."""
    lifelong: bool
    """Whether visits are counted over the whole walk rather than in each episode."""
    goal_ends: bool
    """Whether the goal ends the episode; else it is an ordinary cell."""
    goal_potential_zero: bool
    """Whether the step into a terminal goal pays -J(t) rather than gamma_g J(t+1) - J(t)."""
    first_ties: bool
    """Whether the first of several best actions is taken rather than a random one."""


def walk_options(
    method: str,
    size: int,
    *,
    weight: float | None = None,
    gamma_g: float = 1.0,
    gamma: float = 0.99,
    alpha: float = 0.2,
    epsilon: float = 0.001,
    episode_cap: int | None = None,
    step_cap: int | None = None,
    step_cost: float = 0.1,
    goal_reward: float = 1.0,
    lifelong: bool = False,
    goal_ends: bool = False,
    goal_potential_zero: bool = False,
    first_ties: bool = False,
) -> WalkOptions:
    """Checked options; the defaults are those of the coverage protocol: caps of 10 M² per episode, 1000 M² per walk."""
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}. {did_you_mean(method, METHODS)}")
    episode_cap = 10 * size * size if episode_cap is None else episode_cap
    step_cap = 1000 * size * size if step_cap is None else step_cap
    for name, cap in (("episode_cap", episode_cap), ("step_cap", step_cap)):
        if cap < 1:
            raise InputError(f"{name} must be at least 1 step, not {cap}")
    for name, value in (("gamma_g", gamma_g), ("gamma", gamma), ("alpha", alpha), ("epsilon", epsilon)):
        if not 0.0 <= value <= 1.0:
            raise InputError(f"{name} must lie between 0 and 1, not {value}")
    return WalkOptions(
        method=METHODS.index(method),
        weight=float(NATURAL_WEIGHT[method] if weight is None else weight),
        gamma_g=float(gamma_g),
        gamma=float(gamma),
        alpha=float(alpha),
        epsilon=1.0 if method == "random_walk" else float(epsilon),
        episode_cap=int(episode_cap),
        step_cap=int(step_cap),
        step_cost=float(step_cost),
        goal_reward=float(goal_reward),
        lifelong=bool(lifelong),
        goal_ends=bool(goal_ends),
        goal_potential_zero=bool(goal_potential_zero),
        first_ties=bool(first_ties),
    )


def pays_for_new_cells(options: WalkOptions) -> bool:
    """Whether a shaping method's weight exceeds the step cost, so that a step to a new cell has a positive reward."""
    return METHODS[options.method] in POTENTIALS and options.weight > options.step_cost


def discount_outweighs_gain(options: WalkOptions, states: int) -> bool:
    """Whether JFI's discount takes more off a step than the 1/S that a new cell can add."""
    return METHODS[options.method] == "jfi" and (1 - options.gamma_g) * states > 1
