"""The settings of a Q-learning walk through a maze, shared by the compiled engine and its plain reference."""

from __future__ import annotations

from typing import NamedTuple

from mmrs.errors import InputError, near_matches

METHODS = (
    "vanilla",
    "jfi",
    "entropy",
    "coverage",
    "count_bonus",
    "count_penalty",
    "rnd_decay",
    "random_walk",
)
"""Position in this tuple is the number the engines know a method by."""
VANILLA, JFI, ENTROPY, COVERAGE, COUNT_BONUS, COUNT_PENALTY, RND_DECAY, RANDOM_WALK = range(len(METHODS))
POTENTIALS = ("jfi", "entropy", "coverage")
"""Methods that pay the gain of a potential; gamma_g is theirs alone."""
DECAY = 0.1
"""How fast the RND-like bonus exp(-0.1 n) forgets that a state was new."""
# Unstated: the paper gives no weight at all. 0.1 is the step cost of the maze, the largest weight for which
# no step of JFI pays a positive reward; a count penalty starts at 0 and needs more.
NATURAL_WEIGHT = {name: 1.0 if name == "count_penalty" else 0.1 for name in METHODS}


class WalkOptions(NamedTuple):
    """How a walk is made; a named tuple of numbers and flags, so that compiled code can read it."""

    method: int
    """Position in `METHODS`."""
    weight: float
    """Weight of the intrinsic reward: lambda_g of the potentials, scale times S of the count terms."""
    gamma_g: float
    """Discount inside G = gamma_g J(t+1) - J(t)."""
    gamma: float
    """Discount of Q-learning."""
    alpha: float
    """Learning rate."""
    epsilon: float
    """Probability of a random action."""
    episode_cap: int
    """Steps after which an episode is cut off; the last step still bootstraps."""
    step_cap: int
    """Steps after which a walk is given up."""
    step_cost: float
    """A step costs step_cost / S."""
    goal_reward: float
    """Paid on entering a terminal goal, in place of the step cost."""
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
    """Checked options, by default those of the coverage protocol: caps 10 M² an episode, 1000 M² a walk."""
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}. {near_matches(method, METHODS)}")
    episode_cap = 10 * size * size if episode_cap is None else episode_cap
    step_cap = 1000 * size * size if step_cap is None else step_cap
    for name, cap in (("episode_cap", episode_cap), ("step_cap", step_cap)):
        if cap < 1:
            raise InputError(f"{name} must be at least 1 step, not {cap}")
    for name, share in (("gamma_g", gamma_g), ("gamma", gamma), ("alpha", alpha), ("epsilon", epsilon)):
        if not 0.0 <= share <= 1.0:
            raise InputError(f"{name} must lie between 0 and 1, not {share}")
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
    """Whether a shaping method's weight exceeds the step cost, so that a step to a new cell pays more than nothing."""
    return METHODS[options.method] in POTENTIALS and options.weight > options.step_cost


def discount_outweighs_gain(options: WalkOptions, states: int) -> bool:
    """Whether JFI's discount takes more off a step than the 1/S that a new cell can add."""
    return METHODS[options.method] == "jfi" and (1 - options.gamma_g) * states > 1
