"""Collecting: the same rollout for any number of groups, in this process or in subprocesses."""

import threading
import time
from dataclasses import replace
from functools import partial

import gymnasium as gym
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv

from mmrs.envs.atari import AtariEnvs
from mmrs.envs.subprocess_envs import SubprocEnvs, make_subproc_envs
from mmrs.errors import InputError
from mmrs.ppo.collector import call_in_threads
from mmrs.runs import build
from mmrs.runs.build import build_groups, build_trainer
from mmrs.runs.presets import default_config


def collected(env, groups, steps, vectorization="sync", rollouts=2, num_envs=8):
    config = default_config(env, "none")
    env = replace(config.env, groups=groups, num_envs=num_envs, vectorization=vectorization)
    trainer = build_trainer(replace(config, num_steps=steps, device="cpu", env=env))
    try:
        trainer.collector.start(0)
        return [trainer.collector.collect() for _ in range(rollouts)]
    finally:
        trainer.collector.close()


def assert_same(rollouts, others):
    for one, other in zip(rollouts, others, strict=True):
        for name in ("obs", "actions", "terminated", "truncated", "final_obs"):
            assert torch.equal(getattr(one.rollout, name), getattr(other.rollout, name)), name
        torch.testing.assert_close(one.log_prob, other.log_prob)
        torch.testing.assert_close(one.next_values, other.next_values)
        assert torch.equal(one.reward, other.reward)
        assert one.episodes == other.episodes


@pytest.mark.parametrize(("env", "steps"), [("CartPole-v1", 60), ("Acrobot-v1", 20)])
@pytest.mark.parametrize("groups", [2, 4, 8])
def test_groups_collect_the_same_rollout_as_one_group(env, steps, groups):
    whole, parts = collected(env, 1, steps), collected(env, groups, steps)
    assert_same(whole, parts)
    if env == "CartPole-v1":
        assert len(whole[-1].rollout.final_obs)  # else the order of last states was not tested


def in_processes(config, device):
    each = replace(config, groups=None, vectorization="sync")
    size = config.num_envs // config.groups
    makers = [partial(build.build_envs, each, num_envs=size, first_index=i * size) for i in range(config.groups)]
    return make_subproc_envs(makers)


@pytest.mark.parametrize("groups", [2, 8])
def test_subprocesses_collect_the_same_rollout_in_whichever_order_they_finish(groups, monkeypatch):
    whole = collected("CartPole-v1", 1, 60)
    monkeypatch.setattr(build, "build_groups", in_processes)
    assert_same(whole, collected("CartPole-v1", groups, 60))
    assert len(whole[-1].rollout.final_obs) > 10


def test_games_in_subprocesses_collect_the_same_rollout():
    here, there = (collected("Alien", 2, 32, where, rollouts=6, num_envs=2) for where in ("sync", "async"))
    assert_same(here, there)
    assert sum(len(one.rollout.final_obs) for one in here)


@pytest.mark.parametrize(
    ("cores", "settings", "kind", "sizes"),
    [
        (16, {}, SubprocEnvs, [1] * 8),
        (10, {}, SubprocEnvs, [1] * 8),
        (9, {}, AtariEnvs, [2] * 4),  # spinning processes that share cores would slow each other down
        (16, {"num_envs": 12}, SubprocEnvs, [2] * 6),
        (16, {"num_envs": 3}, SubprocEnvs, [1] * 3),
        (16, {"groups": 2}, AtariEnvs, [4] * 2),
        (16, {"threads": 2}, AtariEnvs, [8]),
        (16, {"groups": 2, "vectorization": "async"}, SubprocEnvs, [4] * 2),
        (1, {"vectorization": "async", "groups": 4}, SubprocEnvs, [2] * 4),
        (16, {"normalize": True}, AtariEnvs, [8]),
        (16, {"normalize": True, "vectorization": "async"}, SubprocEnvs, [8]),
    ],
)
def test_how_games_are_grouped_for_a_gpu(cores, settings, kind, sizes, monkeypatch):
    monkeypatch.setattr(build, "usable_cores", lambda: cores)
    config = replace(default_config("Alien", "none").env, **settings)
    groups = build_groups(config, torch.device("cuda"))
    for envs in groups:
        envs.close()
    assert {type(envs) for envs in groups} == {kind}
    assert [envs.num_envs for envs in groups] == sizes


@pytest.mark.parametrize(("settings", "sizes"), [({}, [8]), ({"vectorization": "async"}, [8])])
@pytest.mark.parametrize("cores", [1, 64])
def test_on_a_cpu_groups_depend_on_the_configuration_alone(settings, sizes, cores, monkeypatch):
    monkeypatch.setattr(build, "usable_cores", lambda: cores)
    groups = build_groups(replace(default_config("Alien", "none").env, **settings), torch.device("cpu"))
    for envs in groups:
        envs.close()
    assert [envs.num_envs for envs in groups] == sizes


def test_unavailable_subprocesses_are_refused(monkeypatch):
    monkeypatch.setattr(build, "subprocesses_available", lambda: False)
    config = replace(default_config("Alien", "none").env, vectorization="async")
    with pytest.raises(InputError, match="async"):
        build_groups(config, torch.device("cpu"))


def test_a_rollout_is_not_overwritten_by_the_next():
    config = default_config("CartPole-v1", "none")
    trainer = build_trainer(replace(config, num_steps=20, device="cpu"))
    trainer.collector.start(0)
    first = trainer.collector.collect()
    kept = [x.clone() for x in (first.reward, first.rollout.actions, first.rollout.terminated)]
    trainer.collector.collect()
    for now, then in zip((first.reward, first.rollout.actions, first.rollout.terminated), kept, strict=True):
        assert torch.equal(now, then)


def test_calls_in_threads_all_return_or_the_first_error_is_raised():
    done = []
    call_in_threads([partial(done.append, i) for i in range(5)])
    assert sorted(done) == list(range(5))
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        call_in_threads([partial(time.sleep, 20), lambda: 1 / 0])
    assert time.monotonic() - start < 10  # does not wait for the other call


def test_an_interrupted_step_is_not_taken_for_the_next(monkeypatch):
    config = default_config("CartPole-v1", "none")
    collector = build_trainer(replace(config, num_steps=20, device="cpu")).collector
    collector.start(0)
    collector.collect()
    envs, calls = collector.groups[0].envs, iter(range(100))
    recv_obs = envs.recv_obs

    def interrupted():
        if next(calls) == 5:
            raise KeyboardInterrupt
        return recv_obs()

    monkeypatch.setattr(envs, "recv_obs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        collector.collect()
    with pytest.raises(InputError, match="under way"):
        collector.collect()


class BoundToItsThread(CartPoleEnv):
    """Only the thread that reset it may step it, as with OpenGL."""

    def reset(self, **options):
        self.thread = threading.get_ident()
        return super().reset(**options)

    def step(self, action):
        assert self.thread == threading.get_ident()
        return super().step(action)


def test_environments_of_this_process_are_restored_in_its_thread():
    gym.register("Bound-v0", BoundToItsThread)
    config = default_config("Bound-v0", "none")
    config = replace(config, num_steps=20, device="cpu", env=replace(config.env, groups=2, normalize=False))
    one, other = build_trainer(config), build_trainer(config)
    one.collector.start(0)
    one.collector.collect()
    other.restore(one.state())
    assert_same([one.collector.collect()], [other.collector.collect()])
