"""Stable-Baselines3 with its other wrappers and buffers: each is supported or refused with the reason."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, HerReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize
from tests.support.adapter_worlds import Constant, Reached, line

from mmrs.adapters.sb3 import BonusCallback, BonusReplayBuffer, ReplayBonusCallback
from mmrs.errors import InputError
from mmrs.rewards import IntrinsicReward
from mmrs.rewards.base import Memory, Terms
from mmrs.rollout import Rollout


def lines(count: int = 2, **options: Any) -> DummyVecEnv:
    return DummyVecEnv([partial(line, **options)] * count)


def ppo(env: Any, callback: Any) -> Any:
    return PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu").learn(64, callback)


def test_original_observations_with_only_rewards_normalized() -> None:
    """Under norm_obs=False the policy sees the originals, whatever other wrapper stands above."""
    callback = BonusCallback(Reached, observations="original")
    ppo(VecFrameStack(VecNormalize(lines(), norm_obs=False), 3), callback)
    assert callback.reward.observation_spec.shape == (6,)


def test_a_wrapper_above_vec_normalize_hides_the_original_last_state() -> None:
    stacked = VecFrameStack(VecNormalize(lines()), 3)
    with pytest.raises(InputError, match="below VecNormalize"):
        ppo(stacked, BonusCallback(Reached, observations="original"))
    ppo(VecFrameStack(VecNormalize(lines()), 3), BonusCallback(Reached))
    ppo(VecNormalize(VecFrameStack(lines(), 3)), BonusCallback(Reached, observations="original"))


def test_the_logged_extrinsic_reward_includes_no_values() -> None:
    """At a time limit the buffer holds reward + value; an environment that pays 0.25 a step must read 0.25."""
    logged: list[dict[str, float]] = []

    class Noting(BonusCallback):
        def log(self, metrics: dict[str, float]) -> None:
            logged.append(metrics)

    callback = Noting(Constant)
    ppo(lines(pays=0.25), callback)
    assert callback._timed_out
    assert [row["extrinsic"] for row in logged] == [0.25]


class Acted(IntrinsicReward):
    """Pays the action taken."""

    causal = True

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        return {"acted": rollout.actions[..., 0].float()}, memory


@pytest.mark.parametrize("when", ["sample", "store"])
def test_the_bonus_sees_box_actions_as_the_environment_got_them(when: str) -> None:
    """The replay buffer scales them to [-1, 1]; the reward gets them in the units of the action space."""
    env = lines(actions="box")
    env.action_space = spaces.Box(10.0, 20.0, (1,), np.float32)
    small = {"learning_starts": 20, "buffer_size": 200, "policy_kwargs": {"net_arch": [8]}, "device": "cpu"}
    model = SAC("MlpPolicy", env, replay_buffer_class=BonusReplayBuffer, seed=0, **small)
    callback = ReplayBonusCallback(Acted, when=when)
    model.learn(40, callback=callback)
    callback._on_training_start()
    samples = model.replay_buffer.sample(100)
    assert float(samples.actions.abs().max()) <= 1.0
    torch.testing.assert_close(samples.rewards, 15.0 + 5.0 * samples.actions)


def test_a_buffer_that_forgets_last_states_is_refused() -> None:
    def model() -> DQN:
        options = {"replay_buffer_kwargs": {"handle_timeout_termination": False}, "optimize_memory_usage": True}
        return DQN("MlpPolicy", lines(1), replay_buffer_class=BonusReplayBuffer, device="cpu", seed=0, **options)

    with pytest.raises(InputError, match="wrong state"):
        model().learn(20, callback=ReplayBonusCallback(Reached))
    stored = model().learn(120, callback=ReplayBonusCallback(Reached, when="store")).replay_buffer
    ended = stored.dones[:120, 0] > 0
    assert set(stored.rewards[:120, 0][ended]) > {5.0}  # terminated in cell 5; where time ran out, elsewhere


def test_hindsight_replay_is_named() -> None:
    class Goals(DummyVecEnv):
        def env_method(self, *_: Any, **__: Any) -> Any:
            return [np.zeros(1)]

    box = spaces.Box(0.0, 6.0, (2,), np.float32)
    env = Goals([line])
    env.observation_space = spaces.Dict(dict.fromkeys(("observation", "achieved_goal", "desired_goal"), box))
    model = DQN("MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer, device="cpu", buffer_size=100)
    with pytest.raises(InputError, match="HER"):
        ReplayBonusCallback("rnd").init_callback(model)


def test_damaged_and_wrong_files_are_refused(tmp_path: Any) -> None:
    callback = BonusCallback("rnd")
    ppo(lines(), callback).save(tmp_path / "model.zip")
    callback.save(tmp_path / "bonus")
    content = (tmp_path / "bonus").read_bytes()
    middle = len(content) // 2
    (tmp_path / "half").write_bytes(content[:middle])
    (tmp_path / "flip").write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    (tmp_path / "text").write_text("no bonus")
    for name in ("model.zip", "half", "flip", "text"):
        with pytest.raises(InputError, match="cannot be read"):
            BonusCallback("rnd").load(tmp_path / name)
    other = BonusCallback("re3")
    other.load(tmp_path / "bonus")
    with pytest.raises(InputError, match="saved by another reward"):
        ppo(lines(), other)


def test_a_file_of_an_older_version_is_refused_and_its_code_is_not_run(tmp_path: Any) -> None:
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> Any:
            return ran.touch, ()

    for bonus in ({"weight": 1.0}, Evil()):
        torch.save({"bonus": bonus}, tmp_path / "old")
        with pytest.raises(InputError, match=r"written by torch\.save.*saved anew"):
            BonusCallback("rnd").load(tmp_path / "old")
    assert not ran.exists()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(InputError, match="NoneType, expected an mmrs reward"):
        ppo(lines(), BonusCallback(None))
    with pytest.raises(InputError, match="weight is 'much'"):
        ppo(lines(), BonusCallback("rnd", weight="much"))
