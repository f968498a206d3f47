"""An interrupted run, restored in a new process, continues to the bit like the run that was never interrupted."""

import pickle
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from tests.support import tracing
from tests.support.envs import random_actions

from mmrs.envs.action_log import FIRST_ROWS
from mmrs.envs.atari import AtariEnvs
from mmrs.envs.bullet import BULLET_GAMES
from mmrs.envs.gym_envs import SyncBackend
from mmrs.envs.registry import make_envs
from mmrs.envs.replay import ReplayedEnvs
from mmrs.errors import EnvError, InputError

STEPS, AFTER = 400, 60


@pytest.fixture(scope="module")
def elsewhere():
    """Restores each cut in another process and continues there; returns observations and hashes."""
    program = [sys.executable, "-m", "tests.support.tracing"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def request(recipe, cuts):
            pickle.dump((recipe, cuts), process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)

        yield request
        process.stdin.close()
        assert process.wait(30) == 0


def check_cuts(elsewhere, recipe, steps=STEPS, after=AFTER):
    """Cut at the first step, right after a reseed, one before it, and at random; returns the number of reseeds."""
    envs = tracing.make(recipe)
    shown = [envs.reset(5)]
    actions = random_actions(envs, steps + after)
    states, hashes = [envs.state()], []
    for row in actions:
        step = envs.step(row)
        states.append(envs.state())
        shown.append(step.obs.copy())
        hashes.append(tracing.digest(step, states[-1]))
    reseeded = [t for t in range(1, steps) if (tracing.column(states[t], "since") == t).any()]
    random = np.random.default_rng(1).integers(1, steps, 2).tolist()
    cuts = [0, *reseeded[-1:], *(t - 1 for t in reseeded[-1:]), *random]
    answers = elsewhere(recipe, [(states[t], actions[t : t + after]) for t in cuts])
    for cut, (obs, continued) in zip(cuts, answers, strict=True):
        np.testing.assert_array_equal(obs, shown[cut], err_msg=f"cut at {cut}")
        assert continued == hashes[cut : cut + after], f"cut at {cut}"
    return int(tracing.column(states[steps], "reseeds").sum())


@pytest.mark.parametrize(
    ("game", "sticky"), [("Breakout", 0.0), ("Breakout", 0.25), ("Alien", 0.25), ("Seaquest", 0.0), ("Krull", 0.25)]
)
def test_atari_continues_exactly(elsewhere, game, sticky):
    # Games are cut off after 120 steps at the latest and reseeded each 100.
    assert check_cuts(elsewhere, ("atari", game, sticky), steps=300, after=30) >= 6


@pytest.mark.parametrize("game", BULLET_GAMES)
def test_bullet_continues_exactly(elsewhere, game):
    reseeds = check_cuts(elsewhere, ("any", game, 50), steps=200, after=40)
    # Random actions never fell these two within the thousand steps of a game.
    assert reseeds >= 3 or game in ("AntBulletEnv-v0", "HalfCheetahBulletEnv-v0")


@pytest.mark.parametrize("env_id", ["CartPole-v1", "FrozenLake-v1", "mmrs/GridWorld-v0", "Pendulum-v1"])
def test_others_continue_exactly(elsewhere, env_id):
    assert check_cuts(elsewhere, ("any", env_id, 100)) >= (3 if env_id != "Pendulum-v1" else 1)


def test_checkpoints_change_nothing():
    traces = []
    for every in (1, 37, 10**6):
        envs = make_envs("CartPole-v1", 4, reseed_every=50)
        envs.reset(3)
        obs = []
        for t, row in enumerate(random_actions(envs, 300)):
            obs.append(envs.step(row).obs.copy())
            if t % every == 0:
                envs.state()
        traces.append(np.array(obs))
    np.testing.assert_array_equal(traces[0], traces[1])
    np.testing.assert_array_equal(traces[0], traces[2])


def test_two_halves_step_like_the_whole():
    whole = AtariEnvs("Breakout", 4, reseed_every=80, max_frames=400)
    halves = [AtariEnvs("Breakout", 2, reseed_every=80, max_frames=400, first_index=i) for i in (0, 2)]
    np.testing.assert_array_equal(whole.reset(9), np.concatenate([half.reset(9) for half in halves]))
    for row in random_actions(whole, 200):
        step = whole.step(row)
        for half, actions in zip(halves, np.split(row, 2), strict=True):
            half.send(actions)
        np.testing.assert_array_equal(step.obs, np.concatenate([half.recv().obs for half in halves]))
    assert tracing.column(whole.state(), "reseeds").sum() >= 4


def test_seeds_differ_between_environments_runs_and_reseeds():
    envs = make_envs("CartPole-v1", 4, reseed_every=20)
    first, other = envs.reset(0), envs.reset(1)
    assert len({row.tobytes() for row in np.concatenate([first, other])}) == 8
    np.testing.assert_array_equal(envs.reset(0), first)
    starts = []
    for row in random_actions(envs, 400):
        step = envs.step(row)
        starts += [step.obs[i].tobytes() for i, one in enumerate(envs.state()) if one["since"] == one["steps"]]
    assert len(starts) > 20
    assert len(set(starts)) == len(starts)


def test_the_log_stays_small():
    envs = make_envs("CartPole-v1", 2, reseed_every=500)
    envs.reset(0)
    longest = 0
    for row in random_actions(envs, 9000):
        envs.step(row)
        longest = max(longest, *(len(one["actions"]) for one in envs.state()))
    assert 500 <= longest <= 500 + 200  # the longest random game is far shorter than 200 steps
    assert len(envs._log._rows) <= 2 * FIRST_ROWS
    assert envs.state()[0]["actions"].dtype == np.uint8


class Forgetful(gym.Env):
    """Its reset ignores the seed, so replay cannot restore it."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.array([np.random.default_rng().random()]), {}

    def step(self, action):
        return np.array([0.5]), 1.0, True, False, {}


def test_an_environment_that_cannot_be_restored_is_refused():
    envs = ReplayedEnvs(SyncBackend([Forgetful] * 2), reseed_every=10)
    envs.reset(0)
    envs.step(np.array([0, 1]))
    with pytest.raises(EnvError, match="did not reach the same state"):
        envs.restore(envs.state())


def test_a_state_of_other_environments_is_refused():
    envs, other = make_envs("CartPole-v1", 2), make_envs("CartPole-v1", 3)
    envs.reset(0)
    with pytest.raises(InputError, match="actions"):
        other.restore(envs.state())


def test_progress_is_reported():
    envs, calls = make_envs("CartPole-v1", 2), []
    envs.reset(0)
    tracing.trace(envs, random_actions(envs, 5))
    make_envs("CartPole-v1", 2).restore(envs.state(), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(i, 5) for i in range(1, 6)]
