"""The compiled engine against its plain reference, and the laws of fairness shaping, all exact."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import maze_reference

import mmrs
from mmrs.envs.maze.env import Maze2D
from mmrs.envs.maze.maze import generate, generate_many
from mmrs.errors import InputError
from mmrs.functional.fairness import jain_index
from mmrs.paper.maze.kernel import walk, walk_many
from mmrs.paper.maze.options import METHODS, walk_options

VARIANTS = {
    "coverage": {},
    "as written": {"gamma_g": 0.99},
    "literal": {"goal_ends": True},
    "goal at zero": {"goal_ends": True, "goal_potential_zero": True},
    "lifelong": {"lifelong": True, "episode_cap": 150},
    "short episodes": {"episode_cap": 37},
    "first ties": {"first_ties": True},
    "restless": {"epsilon": 0.3, "alpha": 0.7, "gamma": 0.9},
    "strong": {"weight": 5.0, "goal_reward": 3.0, "step_cost": 0.4, "goal_ends": True},
}


def both(maze, seed, **options):
    settled = walk_options(**options, size=maze.size)
    return walk(maze.next_state, settled, seed), maze_reference.walk(maze.next_state.tolist(), settled, seed)


def assert_equal(compiled, plain):
    assert compiled.states.tolist() == plain.states
    assert compiled.resets.tolist() == plain.resets
    assert (compiled.steps, compiled.covered) == (plain.steps, plain.covered)
    np.testing.assert_array_equal(compiled.q, np.array(plain.q))  # bit for bit


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("method", METHODS)
def test_compiled_equals_reference_step_for_step(method, variant):
    for seed, kind in enumerate(("plus", "perfect", "plus")):
        maze = generate(6, kind, seed)
        assert_equal(*both(maze, seed + 10, method=method, step_cap=1500, **VARIANTS[variant]))


@settings(max_examples=40, deadline=None)
@given(
    method=st.sampled_from(METHODS),
    size=st.integers(2, 9),
    seed=st.integers(0, 2**63 - 1),
    gamma_g=st.floats(0, 1),
    weight=st.floats(-10, 10),
    epsilon=st.floats(0, 1),
    flags=st.tuples(*[st.booleans()] * 4),
    episode_cap=st.integers(1, 400),
    step_cap=st.integers(1, 600),
)
def test_compiled_equals_reference_for_any_setting(
    method, size, seed, gamma_g, weight, epsilon, flags, episode_cap, step_cap
):
    names = ("lifelong", "goal_ends", "goal_potential_zero", "first_ties")
    options = dict(zip(names, flags, strict=True), gamma_g=gamma_g, weight=weight, epsilon=epsilon)
    maze = generate(size, "plus" if seed % 2 else "perfect", seed)
    assert_equal(*both(maze, seed, method=method, episode_cap=episode_cap, step_cap=step_cap, **options))


def test_many_mazes_in_one_call_equal_one_at_a_time():
    seeds = np.arange(30, dtype=np.uint64)
    next_state = generate_many(7, "plus", seeds).next_state
    options = walk_options("jfi", 7, step_cap=600)
    steps, covered = walk_many(next_state, options, seeds)
    alone = [walk(next_state[i], options, i) for i in range(30)]
    assert steps.tolist() == [one.steps for one in alone]
    assert covered.tolist() == [one.covered for one in alone]
    assert 0 < (covered < 49).sum() < 30  # the cap strikes in some and not in others


def test_running_fairness_equals_fairness_recomputed_from_all_counts():
    maze = generate(6, "plus", 5)
    result = maze_reference.walk(maze.next_state.tolist(), walk_options("jfi", 6, step_cap=2000, epsilon=0.1), 3)
    counts = np.zeros(36, int)
    for state, running in zip(result.states, result.potentials, strict=True):
        counts[state] += 1
        assert running == counts.sum() ** 2 / (36 * (counts**2).sum())
        assert running == float(jain_index(torch.from_numpy(counts)))


def test_a_step_raises_fairness_by_at_most_one_state_and_exactly_that_without_a_repeat():
    for seed in range(20):
        maze = generate(5, "plus", seed)
        result = maze_reference.walk(maze.next_state.tolist(), walk_options("jfi", 5), seed)
        for t in range(1, min(len(result.states), 250)):
            gain = 25 * (result.potentials[t] - result.potentials[t - 1])
            fresh = len(set(result.states[: t + 1])) == t + 1
            assert (abs(gain - 1) < 1e-12) if fresh else (gain < 1)


@pytest.mark.parametrize("gamma_g", [1.0, 0.99, 0.5])
def test_discounted_gains_telescope(gamma_g):
    maze = generate(8, "perfect", 1)
    options = walk_options("jfi", 8, weight=1.0, gamma_g=gamma_g, step_cost=0.0, step_cap=400)
    result = maze_reference.walk(maze.next_state.tolist(), options, 2)
    assert result.resets == [0]  # one episode
    total = sum(gamma_g**t * gain for t, gain in enumerate(result.rewards))
    expected = gamma_g ** len(result.rewards) * result.potentials[-1] - result.potentials[0]
    assert abs(total - expected) < 1e-12
    assert result.potentials[0] == 1 / 64


@pytest.mark.parametrize("goal_ends", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_scaling_weight_and_rewards_by_eight_changes_no_trajectory(method, goal_ends):
    seeds = np.arange(100, dtype=np.uint64)
    batch = generate_many(10, "plus", seeds, "terminal" if goal_ends else "inert")
    weight = 0.3
    small = walk_options(method, 10, weight=weight, step_cap=20_000, goal_ends=goal_ends)
    large = walk_options(
        method, 10, weight=8 * weight, step_cost=0.8, goal_reward=8.0, step_cap=20_000, goal_ends=goal_ends
    )
    np.testing.assert_array_equal(walk_many(batch.next_state, small, seeds), walk_many(batch.next_state, large, seeds))
    for i in range(5):
        one, eight = walk(batch.next_state[i], small, i), walk(batch.next_state[i], large, i)
        assert one.states.tolist() == eight.states.tolist()
        np.testing.assert_array_equal(8 * one.q, eight.q)


def test_another_factor_on_the_weight_alone_does_change_trajectories():
    seeds = np.arange(20, dtype=np.uint64)
    next_state = generate_many(10, "plus", seeds).next_state
    one, eight = (walk_many(next_state, walk_options("jfi", 10, weight=w), seeds)[0] for w in (0.1, 0.8))
    assert (one != eight).any()


@pytest.mark.parametrize("method", ["jfi", "entropy", "coverage", "count_bonus", "count_penalty", "exp_decay"])
@pytest.mark.parametrize("options", [{}, {"lifelong": True}, {"gamma_g": 0.9, "goal_ends": True}])
def test_engine_pays_what_the_reward_of_the_package_pays(method, options):
    """The same walk through `mmrs.make(method)`: two implementations that share no line."""
    if "gamma_g" in options and method in ("count_bonus", "count_penalty", "exp_decay"):
        options = {"goal_ends": True}
    maze = generate(4, "plus", 3)
    settled = walk_options(method, 4, step_cost=0.0, goal_reward=0.0, episode_cap=40, step_cap=300, **options)
    # Random steps reach further than a learner; the bonus is the same function of the walk.
    result = maze_reference.walk(maze.next_state.tolist(), settled._replace(epsilon=1.0), 1)
    env = Maze2D(maze=maze)
    weights = {"lambda_g": 0.1} if method == "jfi" else {}
    if "gamma_g" in options:
        weights["gamma_g"] = options["gamma_g"]
    scope = "lifelong" if options.get("lifelong") else "episode"
    bonus = mmrs.make(method, env.observation_space, env.action_space, scope=scope, **weights)
    starts = set(result.resets)
    visits = result.states
    after = [i for i in range(1, len(visits)) if i not in starts]
    done = np.array([i + 1 in starts for i in after])[:, None]
    ended = np.array([[settled.goal_ends and visits[i] == 15] for i in after]) & done
    rollout = mmrs.Rollout(
        obs=np.array([[visits[i - 1]] for i in after] + [[visits[after[-1]]]]),
        actions=np.zeros((len(after), 1), int),
        terminated=ended,
        truncated=done & ~ended,
        final_obs=np.array([visits[i] for i in after if i + 1 in starts]),
    )
    assert done.sum() > 1
    reward, _ = bonus.compute(rollout)
    np.testing.assert_allclose(reward[:, 0].numpy(), result.rewards, rtol=0, atol=1e-12)


def test_epsilon_and_ties_choose_every_action_equally_often():
    draws = maze_reference.stream(5)
    options = walk_options("vanilla", 2, epsilon=0.25)
    actions = [maze_reference.choose([0.0, 1.0, 1.0, 1.0], next(draws), options) for _ in range(20_000)]
    shares = np.bincount(actions, minlength=4) / len(actions)
    np.testing.assert_allclose(shares, [1 / 16, 5 / 16, 5 / 16, 5 / 16], atol=0.012)
    first = options._replace(epsilon=0.0, first_ties=True)
    assert {maze_reference.choose([0.0, 1.0, 1.0, 1.0], next(draws), first) for _ in range(100)} == {1}


@pytest.mark.parametrize(
    "options",
    [{"episode_cap": 0}, {"step_cap": -5}, {"gamma": 1.1}, {"gamma_g": -0.1}, {"alpha": 2}, {"epsilon": float("nan")}],
)
def test_impossible_options_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        walk_options("jfi", 5, **options)


def test_a_misspelt_method_is_refused_with_a_hint():
    with pytest.raises(InputError, match="Did you mean 'entropy'"):
        walk_options("entropi", 5)
