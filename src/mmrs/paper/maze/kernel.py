"""The compiled loop of the maze experiment: step, O(1) fairness and Q update, for thousands of mazes per call.

The tests have the same walk in plain Python; both draw from the same random stream and agree bit for bit.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmrs.envs.numba_utils import STRIDE, jit, parallel_jit, prange, splitmix64
from mmrs.paper.maze.options import (
    COUNT_BONUS,
    COUNT_PENALTY,
    COVERAGE,
    DECAY,
    ENTROPY,
    EXP_DECAY,
    JFI,
    RANDOM_WALK,
    VANILLA,
    WalkOptions,
)

_SALT = np.uint64(0x6167656E74)
_LOW = np.uint64(0xFFFFFFFF)
_THREE, _U32 = np.uint64(3), np.uint64(32)
# The j-th set bit of each of the 16 sets of best actions, and the size of each set: ties are broken without a branch.
_CHOICE = np.array([([d for d in range(4) if mask >> d & 1] + [0] * 4)[:4] for mask in range(16)], np.int64)
_WIDTH = np.array([max(1, bin(mask).count("1")) for mask in range(16)], np.uint64)


class Walk(NamedTuple):
    """One walk with its trajectory."""

    steps: int
    """Steps until every cell was seen, or the step cap."""
    covered: int
    """Cells seen."""
    states: NDArray[np.int32]
    """Visited states in order, with the first state of each episode."""
    resets: NDArray[np.int32]
    """Indices into `states` at which an episode starts."""
    q: NDArray[np.float64]
    """``[S, 4]`` the Q table at the end."""


def walk_many(
    next_state: NDArray[np.int32], options: WalkOptions, seeds: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Steps to coverage ``[N]`` (the step cap if not covered) and cells seen ``[N]``, in N mazes ``[N, S, 4]``."""
    steps, covered = _walk_many(next_state, options, seeds)
    return steps, covered


def walk(next_state: NDArray[np.int32], options: WalkOptions, seed: int) -> Walk:
    """One walk with its trajectory and Q table, through the maze with next states `next_state [S, 4]`."""
    table = np.array(next_state, np.int32)
    q = np.zeros((len(table), 4))
    # Every episode but the last has at least one step, so there is at most one first state per step.
    path = np.empty(2 * options.step_cap + 1, np.int32)
    resets = np.empty(options.step_cap + 1, np.int32)
    steps, covered, episodes = _walk(table, options, np.uint64(seed), q, path, resets)
    return Walk(int(steps), int(covered), path[: steps + episodes].copy(), resets[:episodes].copy(), q)


@jit
def _best(q: Any, state: Any) -> Any:
    return max(q[state, 0], q[state, 1], q[state, 2], q[state, 3])


@jit
def _choose(q: Any, state: Any, draw: Any, threshold: Any, first_ties: Any) -> Any:
    """Epsilon-greedy action: the high half of the draw decides whether it is random, the low half which one it is."""
    low = draw & _LOW
    if (draw >> _U32) < threshold:
        return np.int64(low & _THREE)
    best, mask = _best(q, state), 0
    for action in range(4):
        mask |= (q[state, action] == best) << action
    return _CHOICE[mask, np.uint64(0) if first_ties else (low * _WIDTH[mask]) >> _U32]


@jit
def _potential(method: Any, states: Any, visits: Any, squares: Any, distinct: Any, entropy_sum: Any) -> Any:
    """The potential of a shaping method, in O(1) from running sums; `entropy_sum` is the sum of c log c."""
    if method == JFI:
        # Eq. (10); products in float64, exact below 2**53, where integers could overflow on huge mazes.
        return float(visits) * float(visits) / (float(states) * float(squares))
    if method == ENTROPY:
        return (log(visits) - entropy_sum / visits) / log(states)
    if method == COVERAGE:
        return distinct / states
    return 0.0


@jit
def _count_term(method: Any, states: Any, count: Any) -> Any:
    """Bonus for a state visited `count` times, this visit included; scaled by 1/S, like the cost of a step."""
    if method == COUNT_BONUS:
        return 1.0 / sqrt(count) / states
    if method == COUNT_PENALTY:
        return (1.0 / sqrt(count) - 1.0) / states
    if method == EXP_DECAY:
        return exp(-DECAY * count) / states
    return 0.0


@jit
def _entropy_sum_gain(count: Any) -> Any:
    """Growth of the sum of c log c when a count rises from `count` by one."""
    return (count + 1.0) * log(count + 1.0) - (count * log(count) if count > 0 else 0.0)


@jit
def _walk(next_state: Any, o: Any, seed: Any, q: Any, path: Any, resets: Any) -> Any:  # noqa: PLR0915
    """One walk; returns steps, cells seen and episodes. One long loop, so that its state stays in registers."""
    states = next_state.shape[0]
    goal = states - 1
    record = path.shape[0] > 0
    counts, seen = np.zeros(states, np.int64), np.zeros(states, np.bool_)
    learns_potential = o.method in (JFI, ENTROPY, COVERAGE)
    cost = o.step_cost / states
    threshold = np.uint64(o.epsilon * 4294967296.0)
    rng = splitmix64(seed * STRIDE + _SALT)
    seen[0] = True
    covered, episodes, step = 1, 0, 0
    visits, squares, distinct, entropy_sum = 0, 0, 0, 0.0
    while True:
        # A new episode: its first state counts as a visit.
        if not o.lifelong:
            counts[:] = 0
            visits, squares, distinct, entropy_sum = 0, 0, 0, 0.0
        state, count = 0, counts[0]
        counts[0] = count + 1
        visits, squares, distinct = visits + 1, squares + 2 * count + 1, distinct + (count == 0)
        if o.method == ENTROPY:
            entropy_sum += _entropy_sum_gain(count)
        potential = _potential(o.method, states, visits, squares, distinct, entropy_sum)
        if record:
            path[step + episodes] = 0
            resets[episodes] = step + episodes
        episodes += 1
        left = min(o.episode_cap, o.step_cap - step)
        ended = False
        while left > 0 and not ended:
            left -= 1
            step += 1
            rng += STRIDE
            action = _choose(q, state, splitmix64(rng), threshold, o.first_ties)
            other = next_state[state, action]
            count = counts[other]
            counts[other] = count + 1
            visits, squares, distinct = visits + 1, squares + 2 * count + 1, distinct + (count == 0)
            ended = o.goal_ends and other == goal
            reward = o.goal_reward if ended else -cost
            if learns_potential:
                if o.method == ENTROPY:
                    entropy_sum += _entropy_sum_gain(count)
                after = _potential(o.method, states, visits, squares, distinct, entropy_sum)
                reached = 0.0 if ended and o.goal_potential_zero else after
                reward += o.weight * (o.gamma_g * reached - potential)  # Eq. (11)
                potential = after
            elif o.method not in (VANILLA, RANDOM_WALK):
                reward += o.weight * _count_term(o.method, states, count + 1)
            future = 0.0 if ended else _best(q, other)
            # Deviation: the text repeats s and a inside the max; it is the next state's best action.
            q[state, action] += o.alpha * (reward + o.gamma * future - q[state, action])  # Eq. (18)
            if record:
                path[step + episodes - 1] = other
            if count == 0 and not seen[other]:
                seen[other] = True
                covered += 1
                if covered == states:
                    return step, covered, episodes
            state = other
        if step >= o.step_cap:
            return step, covered, episodes


@parallel_jit
def _walk_many(next_state: Any, o: Any, seeds: Any) -> Any:
    number, states = next_state.shape[0], next_state.shape[1]
    steps, covered = np.empty(number, np.int64), np.empty(number, np.int64)
    for i in prange(number):
        nothing = np.empty(0, np.int32)
        steps[i], covered[i], _ = _walk(next_state[i], o, seeds[i], np.zeros((states, 4)), nothing, nothing)
    return steps, covered
