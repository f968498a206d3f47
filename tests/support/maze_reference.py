"""The walk of `mmrs.paper.maze.kernel` in plain Python and lists: slow, easy to read, and equal step for step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp, log, sqrt

from mmrs.envs.rooms.maps import STRIDE, Stream, splitmix64
from mmrs.paper.maze.options import DECAY, METHODS, WalkOptions


def stream(seed: int) -> Iterator[int]:
    """The splitmix64 stream of an agent: 64 random bits per draw."""
    draws = Stream(splitmix64((seed * STRIDE + 0x6167656E74) & ((1 << 64) - 1)))
    while True:
        yield draws.bits()


@dataclass
class Visits:
    """Running counts of visited states, with the sums that make every potential O(1)."""

    counts: list[int]
    total: int = 0
    squares: int = 0
    distinct: int = 0
    entropy_sum: float = 0.0
    """Sum of c log c."""

    def add(self, state: int) -> int:
        """Count a visit; returns how often the state had been visited before."""
        c = self.counts[state]
        self.counts[state] = c + 1
        self.total += 1
        self.squares += 2 * c + 1
        self.distinct += c == 0
        self.entropy_sum += (c + 1.0) * log(c + 1.0) - (c * log(c) if c > 0 else 0.0)
        return c

    def potential(self, method: str) -> float:
        """The potential of a shaping method; 0 for the others."""
        states = len(self.counts)
        if method == "jfi":
            return float(self.total) * float(self.total) / (float(states) * float(self.squares))  # Eq. (10)
        if method == "entropy":
            return (log(self.total) - self.entropy_sum / self.total) / log(states)
        if method == "coverage":
            return self.distinct / states
        return 0.0


def count_term(method: str, states: int, count: int) -> float:
    """Bonus for a state visited `count` times, this visit included; 0 for the other methods."""
    if method == "count_bonus":
        return 1.0 / sqrt(count) / states
    if method == "count_penalty":
        return (1.0 / sqrt(count) - 1.0) / states
    if method == "exp_decay":
        return exp(-DECAY * count) / states
    return 0.0


def choose(values: list[float], draw: int, options: WalkOptions) -> int:
    """Epsilon-greedy action: the high half of the draw decides whether it is random, the low half which one it is."""
    low = draw & 0xFFFFFFFF
    if draw >> 32 < int(options.epsilon * 4294967296.0):
        return low & 3
    best = max(values)
    ties = [action for action, value in enumerate(values) if value == best]
    return ties[0 if options.first_ties else (low * len(ties)) >> 32]


@dataclass
class ReferenceWalk:
    """One walk; the fields of `kernel.Walk` as lists, and the reward of each step."""

    q: list[list[float]]
    steps: int = 0
    covered: int = 1
    states: list[int] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    potentials: list[float] = field(default_factory=list)
    """The potential at each entry of `states`."""


def walk(next_state: list[list[int]], options: WalkOptions, seed: int) -> ReferenceWalk:
    """One walk through the maze with next states `next_state`, until every cell was seen or the step cap struck."""
    method, states, draws = METHODS[options.method], len(next_state), stream(seed)
    result = ReferenceWalk(q=[[0.0] * 4 for _ in next_state])
    seen = {0}
    visits = Visits([0] * states)
    while result.steps < options.step_cap:
        if not options.lifelong:
            visits = Visits([0] * states)
        state = 0
        visits.add(state)
        potential = visits.potential(method)
        result.resets.append(len(result.states))
        result.states.append(state)
        result.potentials.append(potential)
        for _ in range(min(options.episode_cap, options.step_cap - result.steps)):
            result.steps += 1
            values = result.q[state]
            action = choose(values, next(draws), options)
            other = next_state[state][action]
            count = visits.add(other)
            ended = options.goal_ends and other == states - 1
            reward = options.goal_reward if ended else -(options.step_cost / states)
            after = visits.potential(method)
            reached = 0.0 if ended and options.goal_potential_zero else after
            reward += options.weight * (options.gamma_g * reached - potential)  # Eq. (11)
            reward += options.weight * count_term(method, states, count + 1)
            future = 0.0 if ended else max(result.q[other])
            # Deviation: the text repeats s and a inside the max; it is the next state's best action.
            values[action] += options.alpha * (reward + options.gamma * future - values[action])  # Eq. (18)
            result.states.append(other)
            result.rewards.append(reward)
            result.potentials.append(after)
            seen.add(other)
            result.covered = len(seen)
            if result.covered == states:
                return result
            state, potential = other, after
            if ended:
                break
    return result
