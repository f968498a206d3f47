"""Q-learning on toy problems with known answers, and with every causal tabular reward."""

import gymnasium as gym
import numpy as np
import pytest
import torch

import mmrs
import mmrs.envs
from mmrs.errors import InputError, NotCausalError, UnsupportedSpaceError
from mmrs.paper import q_learning

CAUSAL = ["jfi", "count_bonus", "count_penalty", "entropy", "coverage", "exp_decay"]


class Corridor(gym.Env):
    """Three cells; action 1 walks right, 0 stays. The right end pays 1 and terminates; `limit` steps truncate."""

    def __init__(self, limit=100, reward=1.0, start=0):
        self.observation_space = gym.spaces.Discrete(3, start=start)
        self.action_space = gym.spaces.Discrete(2)
        self.limit, self.reward, self.start = limit, reward, start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.steps = 0, 0
        return self.start, {}

    def step(self, action):
        self.cell, self.steps = self.cell + int(action), self.steps + 1
        ended = self.cell == 2
        truncated = not ended and self.steps >= self.limit
        return self.start + self.cell, self.reward * ended, ended, truncated, {}


def test_values_of_a_corridor_are_those_of_the_bellman_equation():
    q = q_learning(Corridor(), 4000, alpha=0.5, gamma=0.9, epsilon=0.5).q
    np.testing.assert_allclose(q, [[0.81, 0.9], [0.9, 1.0], [0.0, 0.0]], atol=1e-6)


class Exit(gym.Env):
    """One state; action 0 stays and pays 1, action 1 ends the episode without leaving the state."""

    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, float(action == 0), bool(action == 1), False, {}


def test_a_true_end_is_worth_nothing_even_in_a_state_that_is_worth_much():
    q = q_learning(Exit(), 3000, alpha=0.5, gamma=0.9, epsilon=0.5).q
    np.testing.assert_allclose(q, [[10.0, 0.0]], atol=1e-6)


def test_a_time_limit_still_bootstraps():
    """The lone state pays 1 for ever: worth 1 / (1 - gamma), not the sum up to the limit."""
    q = q_learning(Corridor(limit=1, reward=0.0), 3000, Paying(1.0), alpha=0.5, gamma=0.9, epsilon=0.5).q
    assert abs(q[0, 0] - 10.0) < 0.5


class Paying:
    """The smallest reward that fulfills the contract; it records its calls."""

    causal = True

    def __init__(self, amount=0.0):
        self.amount, self.calls, self.learned = amount, [], 0

    def compute(self, rollout, memory=None):
        self.calls.append((rollout, memory))
        return torch.full((1, 1), self.amount), {"calls": len(self.calls)}

    def update(self, rollout):
        self.learned += 1
        assert self.calls[-1][0] is rollout  # reward first, learning after
        return {}


def test_the_reward_sees_true_last_states_and_the_state_that_follows():
    bonus = Paying()
    q_learning(Corridor(limit=3), 300, bonus, epsilon=1.0)
    kinds = set()
    for (rollout, memory), number in zip(bonus.calls, range(300), strict=True):
        assert (memory is None) if number == 0 else memory == {"calls": number}
        before, after = int(rollout.obs[0, 0]), int(rollout.obs[1, 0])
        moved = before + int(rollout.actions[0, 0])
        if rollout.terminated.item() or rollout.truncated.item():
            assert int(rollout.final_obs[0]) == moved
            assert after == 0
            assert rollout.terminated.item() == (moved == 2)
            kinds.add("terminated" if rollout.terminated.item() else "truncated")
        else:
            assert len(rollout.final_obs) == 0
            assert after == moved
    assert kinds == {"terminated", "truncated"}
    assert bonus.learned == 300


def test_returns_contain_the_extrinsic_reward_alone():
    result = q_learning(Corridor(), 500, Paying(100.0), epsilon=0.5)
    assert set(result.returns) == {1.0}
    assert result.visits.sum() == 500 + 1 + len(result.returns)
    assert result.steps_to_coverage is not None


def test_spaces_may_start_at_another_index():
    np.testing.assert_array_equal(q_learning(Corridor(start=7), 300).q, q_learning(Corridor(), 300).q)


@pytest.mark.parametrize(
    ("name", "options", "steps", "least"),
    [
        ("FrozenLake-v1", {"is_slippery": False}, 8000, 0.7),
        ("CliffWalking-v1", {}, 12_000, -120.0),
        ("Taxi-v4", {}, 60_000, -5.0),
    ],
)
def test_gymnasium_toys_are_learned(name, options, steps, least):
    env = gym.make(name, **options)
    returns = q_learning(env, steps, epsilon=0.1, alpha=0.4).returns
    assert np.mean(returns[-50:]) > least
    assert np.mean(returns[-50:]) > np.mean(returns[:50]) + 0.3


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
@pytest.mark.parametrize("method", CAUSAL)
def test_every_causal_tabular_reward_works_on_the_toys(name, method):
    env = gym.make(name)
    bonus = mmrs.make(method, env.observation_space, env.action_space)
    result = q_learning(env, 150, bonus)
    assert np.isfinite(result.q).all()
    assert (result.q != q_learning(env, 150).q).any()


def test_jfi_covers_a_maze_sooner_than_plain_q_learning():
    steps = {"plain": [], "jfi": []}
    for seed in range(4):
        env = gym.make("mmrs/Maze2D-v0", size=5, kind="perfect", seed=seed, goal="inert")
        bonus = mmrs.make("jfi", env.observation_space, env.action_space)
        for name, reward in (("plain", None), ("jfi", bonus)):
            steps[name].append(q_learning(env, 500, reward, seed=seed).steps_to_coverage or 500)
    assert np.mean(steps["jfi"]) < 0.8 * np.mean(steps["plain"])


def test_a_seed_determines_a_run():
    env = gym.make("FrozenLake-v1")
    runs = [q_learning(env, 2000, epsilon=0.3, seed=seed).q for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


def test_a_reward_that_needs_the_whole_rollout_is_refused():
    bonus = Paying()
    bonus.causal = False
    with pytest.raises(NotCausalError, match="not causal"):
        q_learning(Corridor(), 10, bonus)
    assert bonus.calls == []


def test_spaces_without_a_table_are_refused():
    with pytest.raises(UnsupportedSpaceError, match="observation space"):
        q_learning(gym.make("CartPole-v1"), 10)
    env = Corridor()
    env.action_space = gym.spaces.Box(-1, 1)
    with pytest.raises(UnsupportedSpaceError, match="action space"):
        q_learning(env, 10)


@pytest.mark.parametrize("options", [{"steps": 0}, {"alpha": 1.5}, {"gamma": -1}, {"epsilon": float("nan")}])
def test_impossible_values_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        q_learning(Corridor(), **{"steps": 10, **options})
