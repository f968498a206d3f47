"""Stable-Baselines3, off-policy, with the real library."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tests.support.adapter_worlds import (
    LIMIT,
    Constant,
    Hindsight,
    Reached,
    generators,
    line,
    restore,
    same_weights,
    seed_numpy,
    weight_distance,
)

import mmrs
from mmrs.adapters.sb3 import BonusReplayBuffer, ReplayBonusCallback
from mmrs.errors import InputError, NotCausalError, UnsupportedSpaceError

ALGORITHMS = pytest.mark.parametrize("algorithm", [DQN, SAC, TD3], ids=lambda a: a.__name__)
WHEN = pytest.mark.parametrize("when", ["sample", "store"])


def world(algorithm: Any, pays: float = 0.0, constant: float = 0.0, kind: str = "box") -> Any:
    return DummyVecEnv([partial(line, kind, pays, constant, "discrete" if algorithm is DQN else "box")] * 2)


def make(algorithm: Any, env: Any = None, buffer: Any = BonusReplayBuffer, **options: Any) -> Any:
    small = {"learning_starts": 20, "batch_size": 16, "buffer_size": 500, "train_freq": 4, "gradient_steps": 1}
    policy = {"policy_kwargs": {"net_arch": [16]}, "replay_buffer_class": buffer, "seed": 3, "device": "cpu"}
    return algorithm("MlpPolicy", world(algorithm) if env is None else env, **{**small, **policy, **options})


def learn(
    algorithm: Any, callback: Any = None, steps: int = 120, env: Any = None, buffer: Any = BonusReplayBuffer
) -> Any:
    return make(algorithm, env, buffer).learn(steps, callback=callback)


@WHEN
@ALGORITHMS
def test_weight_zero_changes_nothing(algorithm: Any, when: str) -> None:
    plain = learn(algorithm, buffer=None)
    hosted = learn(algorithm, ReplayBonusCallback("rnd", weight=0.0, when=when, train_every=32))
    assert same_weights(plain.policy, hosted.policy)
    other = learn(algorithm, ReplayBonusCallback("rnd", weight=10.0, when=when, train_every=32))
    assert not same_weights(plain.policy, other.policy)


@WHEN
@ALGORITHMS
def test_constant_bonus_equals_environment_that_returns_it(algorithm: Any, when: str) -> None:
    paid = learn(algorithm, env=world(algorithm, pays=0.25, constant=0.5), buffer=None)
    bonus = learn(algorithm, ReplayBonusCallback(Constant, when=when), env=world(algorithm, pays=0.25))
    assert weight_distance(paid.policy, bonus.policy) <= 1e-5
    plain = learn(algorithm, env=world(algorithm, pays=0.25), buffer=None)
    assert weight_distance(paid.policy, plain.policy) > 1e-4


@WHEN
def test_targets_see_exactly_the_bonus_of_the_true_last_state(when: str) -> None:
    """With no extrinsic reward a target r + γQ changes by the weighted bonus, and by nothing else."""
    callback = ReplayBonusCallback(Reached, weight=0.25, when=when)
    model = make(DQN, learning_starts=180).learn(200, callback=callback)
    buffer = model.replay_buffer
    if when == "sample":
        assert (buffer.rewards == 0).all()
        callback._on_training_start()
    seed_numpy(0)
    samples = buffer.sample(500)
    assert torch.equal(samples.rewards, 0.25 * samples.next_observations[:, :1])
    ended = samples.dones.flatten() > 0
    assert ended.any()
    assert (samples.rewards.flatten()[ended] == 0.25 * 5).all()


def test_sampled_bonuses_use_the_reward_as_trained_by_then() -> None:
    callback = ReplayBonusCallback("rnd", train_every=32)
    model = learn(DQN, callback)
    callback._on_training_start()
    before = sampled(model)
    assert callback.reward.updates >= 3
    for _ in range(20):
        model.replay_buffer.add(*step_of_two(model), [{}, {}])
    callback.reward.norm.mean.add_(1.0)
    after = sampled(model)
    assert not torch.equal(before, after)


def sampled(model: Any) -> torch.Tensor:
    seed_numpy(1)
    return model.replay_buffer.sample(32).rewards


def step_of_two(model: Any) -> tuple[np.ndarray, ...]:
    obs = np.ones((2, 2), np.float32)
    return obs, obs, np.zeros((2, 1), np.int64), np.zeros(2, np.float32), np.zeros(2, bool)


def test_stored_bonuses_use_the_memory_of_their_episodes() -> None:
    """What was stored step by step is what the reward pays for the whole run at once."""
    env, callback = world(DQN, kind="discrete"), ReplayBonusCallback("jfi", when="store", train_every=10_000)
    model = learn(DQN, callback, env=env)
    whole = callback._step_buffer.take()
    paid, _ = callback.reward.compute(whole)
    stored = model.replay_buffer.rewards[: len(paid)]
    np.testing.assert_allclose(stored, paid.numpy(), atol=1e-7)
    assert stored.any()
    assert whole.truncated.any()
    assert whole.terminated.any()


def test_an_environment_reset_from_outside_is_no_transition() -> None:
    callback = ReplayBonusCallback("jfi", when="store", train_every=10_000)
    model = make(DQN, world(DQN, kind="discrete"), train_freq=1)
    model.learn(2 * 3, callback=callback)  # three steps of two environments: they are anywhere but in cell 2
    assert callback.reward_host.running.all()
    model.learn(2, callback=callback)  # resets to cell 2
    assert callback.reward_host.memory["counts"].sum(1).tolist() == [2, 2]  # the start and one step
    rollout = callback._step_buffer.take()
    assert rollout.truncated.tolist() == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert (rollout.final_obs != 2).all()


def test_trained_at_the_interval() -> None:
    callback = ReplayBonusCallback("rnd", train_every=40)
    learn(DQN, callback, steps=200)
    assert callback.reward.updates == 5


@pytest.mark.parametrize("which", ["policy", "original"])
def test_vec_normalize(which: str) -> None:
    def env() -> VecNormalize:
        return VecNormalize(world(DQN, pays=1.0))

    plain = learn(DQN, env=env(), buffer=None)
    callback = ReplayBonusCallback("rnd", weight=0.0, observations=which)
    assert same_weights(plain.policy, learn(DQN, callback, env=env()).policy)
    callback = ReplayBonusCallback(Reached, observations=which)
    model = learn(DQN, callback, env=env())
    callback._on_training_start()
    seed_numpy(0)
    normalized, vec = model.replay_buffer.sample(200, env=model.get_env()), model.get_env()
    extrinsic = vec.normalize_reward(np.ones(1))[0]
    bonus = normalized.rewards - extrinsic
    seen = normalized.next_observations.numpy()
    seen = seen if which == "policy" else vec.unnormalize_obs(seen)
    np.testing.assert_allclose(bonus.numpy()[:, 0], seen[:, 0], atol=1e-4)


def test_save_load_learn_continues_as_if_never_stopped(tmp_path: Any) -> None:
    callback, model = ReplayBonusCallback("rnd", weight=0.5, train_every=24), make(DQN)
    model.learn(100, callback=callback)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "buffer")
    callback.save(tmp_path / "bonus")
    env = copy.deepcopy(model.get_env())
    states = generators()
    spaces_state = copy.deepcopy(model.action_space)
    model.learn(100, callback=callback, reset_num_timesteps=False)

    resumed = ReplayBonusCallback("rnd", weight=0.5, train_every=24)
    resumed.load(tmp_path / "bonus")
    second = DQN.load(tmp_path / "model", env=env, device="cpu", force_reset=False)
    second.load_replay_buffer(tmp_path / "buffer")
    restore(states)
    second.action_space = spaces_state
    second.learn(100, callback=resumed, reset_num_timesteps=False)
    assert same_weights(model.policy, second.policy)
    assert same_weights(callback.reward.predictor, resumed.reward.predictor)
    assert callback.reward.updates == resumed.reward.updates == 8


def test_saved_buffer_holds_no_bonus() -> None:
    callback = ReplayBonusCallback("rnd")
    model = learn(DQN, callback)
    callback._on_training_start()
    assert pickle.loads(pickle.dumps(model.replay_buffer)).bonus is None


def test_errors_say_what_to_do() -> None:
    with pytest.raises(NotCausalError, match="off-policy"):
        learn(DQN, ReplayBonusCallback("mmrs"))
    with pytest.raises(NotCausalError, match="off-policy"):
        learn(DQN, ReplayBonusCallback(Hindsight, when="store"))
    with pytest.raises(InputError, match="when='store'"):
        learn(DQN, ReplayBonusCallback("ride"))
    with pytest.raises(InputError, match="when='store'"):
        learn(DQN, ReplayBonusCallback(lambda obs, act: mmrs.Scaled(mmrs.make("rnd", obs, act))))
    with pytest.raises(InputError, match=r"replay_buffer_class=mmrs\.adapters"):
        learn(DQN, ReplayBonusCallback("rnd"), buffer=None)
    with pytest.raises(InputError, match=r"mmrs\.adapters\.sb3\.BonusCallback"):
        PPO("MlpPolicy", line(), device="cpu").learn(8, callback=ReplayBonusCallback("rnd"))
    with pytest.raises(InputError, match=r"mmrs\.Sum"):
        learn(DQN, [ReplayBonusCallback("rnd"), ReplayBonusCallback("rnd")])
    with pytest.raises(UnsupportedSpaceError, match="FlattenObservation"):
        DQN("MultiInputPolicy", line("dict"), replay_buffer_class=BonusReplayBuffer, device="cpu")
    learn(DQN, ReplayBonusCallback("ride", when="store", train_every=LIMIT), steps=40)
