"""Environments in workers: the same steps as in this process, and every fault is reported in time."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from tests.support.envs import Troubled

from mmrs.envs.async_envs import AsyncBackend
from mmrs.envs.gym_envs import GymEnvs
from mmrs.envs.registry import make_envs
from mmrs.envs.replay import ReplayedEnvs
from mmrs.errors import EnvError

pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore::UserWarning")]


def troubled(timeout=2.0):
    envs = ReplayedEnvs(AsyncBackend([Troubled] * 3, timeout), reseed_every=100)
    envs.reset(0)
    return envs, list(envs._backend._envs.processes)


def all_gone(processes):
    return all(not process.is_alive() for process in processes)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (1, "Environment 1 raised ValueError: the wheel came off"),
        (2, "Environment 1 did not answer within 2 s"),
        (3, "worker of environment 1 died with exit code -9"),
        (4, "Environment 1 did not answer within 2 s"),
    ],
)
def test_a_worker_in_trouble_is_found_within_the_time_limit(action, text):
    envs, processes = troubled()
    envs.step(np.zeros(3, int))
    started = time.monotonic()
    with pytest.raises(EnvError, match=text):
        envs.step(np.array([0, action, 0]))
    assert time.monotonic() - started < 10
    assert all_gone(processes)
    envs.close()  # still safe


@pytest.mark.parametrize(
    ("action", "text"),
    [(1, "Environment 7 raised"), (2, "Environment 7 did not answer"), (3, "worker of environment 7 died")],
)
def test_faults_count_environments_through_the_groups_of_a_run(action, text):
    options = {"vectorization": "async", "step_timeout": 1.0, "first_index": 6}
    envs = GymEnvs("Troubled", 3, make=lambda *_, **__: Troubled(), **options)
    envs.reset(0)
    with pytest.raises(EnvError, match=text):
        envs.step(np.array([0, action, 0]))


def test_a_worker_killed_from_outside_between_steps():
    envs, processes = troubled()
    os.kill(processes[2].pid, signal.SIGKILL)
    processes[2].join()
    with pytest.raises(EnvError, match="worker of environment 2 died with exit code -9"):
        envs.step(np.zeros(3, int))
    assert all_gone(processes)
    assert envs.state()[0]["steps"] == 0  # what was known before is still there to be saved


@pytest.mark.parametrize("end", ["raise SystemExit(0)", "del envs", "envs.close()", "envs.send(np.array([2]))"])
def test_workers_end_with_their_owner(end):
    """Whether or not it closes them, and whatever they are doing."""
    script = f"""
        import numpy as np
        from mmrs.envs.replay import ReplayedEnvs
        from mmrs.envs.async_envs import AsyncBackend
        from tests.support.envs import Troubled
        envs = ReplayedEnvs(AsyncBackend([Troubled]), reseed_every=100)
        envs.reset(0)
        print(envs._backend._envs.processes[0].pid, flush=True)
        {end}
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(
        command, timeout=20, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_closing_ends_all_workers_and_signals_of_others_do_not(number):
    envs, processes = troubled()
    for process in processes:
        os.kill(process.pid, number)
    envs.step(np.zeros(3, int))
    envs.close()
    assert all_gone(processes)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "InvertedPendulumBulletEnv-v0"])
def test_workers_step_exactly_as_this_process_does(env_id):
    here, there = (make_envs(env_id, 2, vectorization=v, reseed_every=40) for v in ("sync", "async"))
    np.testing.assert_array_equal(here.reset(2), there.reset(2))
    ended = 0
    for _ in range(120):
        actions = np.array([here.action_space.sample() for _ in range(2)])
        a, b = here.step(actions), there.step(actions)
        for name in ("obs", "reward", "terminated", "truncated", "final_obs"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert a.episodes == b.episodes
        ended += len(a.episodes.game_returns)
    assert ended > 3 and sum(one["reseeds"] for one in here.state()) >= 2
    again = make_envs(env_id, 2, vectorization="async")
    np.testing.assert_array_equal(again.restore(there.state()), b.obs)
    there.close()
    again.close()


def test_infos_come_through_workers():
    there = ReplayedEnvs(AsyncBackend([Reporting] * 2), reseed_every=100)
    there.reset(0)
    assert there.step(np.array([0, 1])).episodes.infos == [{"success": 1.0}]
    there.close()


class Reporting(Troubled):
    def step(self, action):
        return np.zeros(1, np.float32), 0.0, bool(action), False, {"success": bool(action), "words": "not a number"}
