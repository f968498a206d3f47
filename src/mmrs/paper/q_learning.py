"""Tabular Q-learning on any Discrete environment, with an optional intrinsic reward computed step by step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from mmrs.errors import InputError, UnsupportedSpaceError
from mmrs.rewards.base import IntrinsicReward, Memory, require_causal
from mmrs.rollout import Rollout

Table = NDArray[np.float64]


@dataclass(frozen=True)
class QLearningResult:
    """The learned table, and statistics of the run."""

    q: Table
    """``[S, A]`` action values, bonus included where there was one."""
    returns: tuple[float, ...]
    """Extrinsic return of each finished episode, without the bonus."""
    visits: NDArray[np.int64]
    """``[S]`` visits, the first state of each episode included."""
    steps_to_coverage: int | None
    """Number of steps until every state of the space had been visited; None if some never was."""


def q_learning(
    env: gym.Env[Any, Any],
    steps: int,
    bonus: IntrinsicReward | None = None,
    *,
    alpha: float = 0.2,
    gamma: float = 0.99,
    epsilon: float = 0.001,
    seed: int = 0,
) -> QLearningResult:
    """Learn for `steps` environment steps, updating after each one.

    Args:
        env: an environment with Discrete observations and actions.
        steps: total number of environment steps, over as many episodes as it takes.
        bonus: a causal reward, e.g. `mmrs.make("jfi", env.observation_space, env.action_space)`.
        alpha: learning rate.
        gamma: discount.
        epsilon: probability of a random action.
        seed: seed of the environment and of the agent.
    """
    q, first_state, first_action = _empty_table(env)
    _check(steps, alpha, gamma, epsilon)
    if bonus is not None:
        require_causal(bonus, "Q-learning")
    rng, log = np.random.default_rng(seed), _Log(np.zeros(len(q), np.int64))
    memory: Memory | None = None
    obs = int(env.reset(seed=seed)[0])
    log.visit(obs - first_state)
    for _ in range(steps):
        state = obs - first_state
        action = _epsilon_greedy(q[state], epsilon, rng)
        obs_after, reward, terminated, truncated, _ = env.step(action + first_action)
        last, done = int(obs_after), bool(terminated or truncated)
        next_obs = int(env.reset()[0]) if done else last
        total = float(reward)
        if bonus is not None:
            rollout = _one_step(obs, action + first_action, last, next_obs, bool(terminated), bool(truncated))
            amount, memory = bonus.compute(rollout, memory)
            total += float(amount)
        # Only a true terminal state has the value zero; at a time limit the value is bootstrapped.
        future = 0.0 if terminated else float(q[last - first_state].max())
        # Deviation: the text repeats s and a inside the max; it is the next state's best action.
        q[state, action] += alpha * (total + gamma * future - q[state, action])  # Eq. (18)
        if bonus is not None:
            bonus.update(rollout)
        log.step(last - first_state, float(reward))
        if done:
            log.end_episode()
            log.visit(next_obs - first_state)
        obs = next_obs
    return QLearningResult(q, tuple(log.returns), log.visits, log.covered_after)


@dataclass
class _Log:
    """Visits, returns and the step of full coverage, counted while the loop runs."""

    visits: NDArray[np.int64]
    returns: list[float] = field(default_factory=list)
    steps: int = 0
    seen: int = 0
    covered_after: int | None = None
    episode_return: float = 0.0

    def visit(self, state: int) -> None:
        self.seen += int(self.visits[state] == 0)
        self.visits[state] += 1
        if self.covered_after is None and self.seen == len(self.visits):
            self.covered_after = self.steps

    def step(self, state: int, reward: float) -> None:
        self.steps += 1
        self.episode_return += reward
        self.visit(state)

    def end_episode(self) -> None:
        self.returns.append(self.episode_return)
        self.episode_return = 0.0


def _epsilon_greedy(values: Table, epsilon: float, rng: np.random.Generator) -> int:
    """A best action, ties broken at random; or any action with probability epsilon."""
    if rng.random() < epsilon:
        return int(rng.integers(len(values)))
    # Unstated: the tie rule. The first index would always go north at the start.
    return int(rng.choice(np.flatnonzero(values == values.max())))


def _one_step(obs: int, action: int, last: int, following: int, terminated: bool, truncated: bool) -> Rollout:
    """A single step as a rollout with T = N = 1; `following` is the first state of the next episode where one ended."""
    return Rollout(
        obs=np.array([[obs], [following]]),
        actions=np.array([[action]]),
        terminated=np.array([[terminated]]),
        truncated=np.array([[truncated]]),
        final_obs=np.array([last]) if terminated or truncated else None,
    )


def _empty_table(env: gym.Env[Any, Any]) -> tuple[Table, int, int]:
    """A table of zeros, and the environment's indices of the first state and the first action."""
    observations, actions = env.observation_space, env.action_space
    for name, space in (("observation", observations), ("action", actions)):
        if not isinstance(space, gym.spaces.Discrete):
            raise UnsupportedSpaceError(
                f"Q-learning keeps a table and needs Discrete spaces; the {name} space is {space}. "
                "Use PPO (mmrs.ppo) for images, vectors and continuous actions."
            )
    assert isinstance(observations, gym.spaces.Discrete)
    assert isinstance(actions, gym.spaces.Discrete)
    table = np.zeros((int(observations.n), int(actions.n)))
    return table, int(observations.start), int(actions.start)


def _check(steps: int, alpha: float, gamma: float, epsilon: float) -> None:
    if steps < 1:
        raise InputError(f"steps must be at least 1, not {steps}")
    for name, share in (("alpha", alpha), ("gamma", gamma), ("epsilon", epsilon)):
        if not 0.0 <= share <= 1.0:
            raise InputError(f"{name} must lie between 0 and 1, not {share}")
