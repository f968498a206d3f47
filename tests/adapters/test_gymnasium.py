"""The Gymnasium wrapper, under each autoreset mode."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from tests.support.adapter_worlds import LIMIT, Constant, Hindsight, Reached, line

import mmrs
from mmrs.adapters.gymnasium import BonusVectorWrapper
from mmrs.errors import InputError, NotCausalError, UnsupportedSpaceError
from mmrs.storage import state_file

MODES = pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)


def vector(mode: AutoresetMode = AutoresetMode.NEXT_STEP, kind: str = "box", **options: Any) -> SyncVectorEnv:
    return SyncVectorEnv([partial(line, kind, **options)] * 3, autoreset_mode=mode)


def walk(envs: Any, steps: int = 60, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """A random walk that resets by hand where the mode asks for it."""
    rng, rows = np.random.default_rng(seed), []
    obs, _ = envs.reset(seed=seed)
    for _ in range(steps):
        actions = rng.integers(0, 2, envs.num_envs)
        after, reward, terminated, truncated, info = envs.step(actions)
        rows.append(
            {"obs": obs, "after": after, "reward": reward, "terminated": terminated, "truncated": truncated, **info}
        )
        obs, done = after, terminated | truncated
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and done.any():
            obs, _ = envs.reset(options={"reset_mask": done})
    return rows


@MODES
def test_weight_zero_changes_nothing(mode: AutoresetMode) -> None:
    plain, hosted = walk(vector(mode, pays=1.0)), walk(BonusVectorWrapper(vector(mode, pays=1.0), "rnd", weight=0.0))
    for one, other in zip(plain, hosted, strict=True):
        for name, value in one.items():
            if name != "final_obs" and not name.startswith("_") and name != "final_info":
                np.testing.assert_array_equal(value, other[name])
    assert all(row["reward"].dtype == np.float64 for row in hosted)


@MODES
def test_constant_bonus_equals_environment_that_returns_it(mode: AutoresetMode) -> None:
    paid = walk(vector(mode, pays=0.25, constant=0.5))
    bonus = walk(BonusVectorWrapper(vector(mode, pays=0.25), Constant))
    for one, other in zip(paid, bonus, strict=True):
        np.testing.assert_array_equal(one["reward"], other["reward"])
    dummies = sum(int((row["reward"] == 0).sum()) for row in bonus)
    assert (dummies > 0) == (mode is AutoresetMode.NEXT_STEP)  # the reset steps of that mode pay nothing


@MODES
def test_parts_add_up_and_the_last_state_is_the_true_one(mode: AutoresetMode) -> None:
    rows = walk(BonusVectorWrapper(vector(mode, pays=1.0), Reached, weight=0.5))
    ends = 0
    for row in rows:
        np.testing.assert_array_equal(row["reward"], row["extrinsic_reward"] + row["bonus"])
        ends += int(row["terminated"].sum())
        assert (row["bonus"][row["terminated"]] == 0.5 * 5).all()
    assert ends > 3


def test_whole_number_rewards_do_not_round_the_bonus_away() -> None:
    class Whole(gym.vector.VectorWrapper[Any, Any, Any]):
        def step(self, actions: Any) -> Any:
            obs, reward, *rest = self.env.step(actions)
            return obs, reward.astype(np.int64), *rest

    rows = walk(BonusVectorWrapper(Whole(vector(AutoresetMode.SAME_STEP, pays=1.0)), Constant))
    assert all((row["reward"] == 1.5).all() and (row["extrinsic_reward"] == 1).all() for row in rows)


@MODES
def test_step_by_step_equals_one_long_rollout(mode: AutoresetMode) -> None:
    envs = BonusVectorWrapper(vector(mode, "discrete"), "jfi", train_every=10_000)
    rows = walk(envs)
    whole = envs._step_buffer.take()
    expected, memory = envs.reward.compute(whole)
    np.testing.assert_allclose([row["bonus"] for row in rows], expected.numpy(), atol=1e-7)
    assert torch.equal(memory["counts"], envs.reward_host.memory["counts"])
    assert whole.truncated.any()
    assert whole.terminated.any()


def test_a_reset_in_the_middle_is_no_transition() -> None:
    envs = BonusVectorWrapper(vector(kind="discrete"), "jfi", train_every=10_000)
    envs.reset(seed=0)
    for _ in range(3):
        envs.step(np.zeros(3, int))
    envs.reset(seed=0)
    envs.step(np.ones(3, int))
    assert envs.reward_host.memory["counts"].sum(1).tolist() == [2, 2, 2]
    whole = envs._step_buffer.take()
    assert whole.truncated.any(1).tolist() == [False, False, True, False]
    assert (whole.final_obs == 0).all()


class OneOfThem(gym.Env[Any, Any]):
    """The only environment of a wrapped vector, as Gymnasium's checker, which knows no vectors, wants to see it."""

    def __init__(self, mode: AutoresetMode) -> None:
        self.envs = BonusVectorWrapper(SyncVectorEnv([line], autoreset_mode=mode), "rnd", weight=0.5)
        self.observation_space, self.action_space = self.envs.single_observation_space, self.envs.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        obs, info = self.envs.reset(seed=seed, options=options)
        return obs[0], info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.envs.step(np.array([action]))
        return obs[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info


def test_a_masked_reset_in_the_middle_is_refused() -> None:
    """The reward's memory cannot end the episode of one environment alone."""
    envs = BonusVectorWrapper(vector(AutoresetMode.DISABLED), "rnd")
    envs.reset(seed=0)
    envs.step(np.zeros(3, int))
    with pytest.raises(InputError, match="middle of an episode"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})


@MODES
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_s_own_checks(mode: AutoresetMode) -> None:
    check_env(OneOfThem(mode), skip_render_check=True)
    envs = BonusVectorWrapper(vector(mode), "rnd", weight=0.5)
    obs, reward, terminated, truncated, _ = (envs.reset(seed=1), envs.step(envs.action_space.sample()))[1]
    assert obs in envs.observation_space
    assert (reward.shape, terminated.dtype, truncated.dtype) == ((3,), np.bool_, np.bool_)
    assert envs.spec is vector(mode).spec
    assert envs.metadata["autoreset_mode"] is mode
    envs.close()


def test_works_with_other_wrappers_and_processes() -> None:
    inner = RecordEpisodeStatistics(AsyncVectorEnv([partial(line, pays=1.0)] * 2))
    envs = DictInfoToList(BonusVectorWrapper(inner, "rnd", weight=5.0))
    try:
        envs.reset(seed=0)
        for _ in range(LIMIT):
            info = envs.step(np.zeros(2, int))[4]
        assert [float(i["episode"]["r"]) for i in info] == [LIMIT, LIMIT]  # the score is the extrinsic one
        assert all(i["extrinsic_reward"] == 1.0 and i["bonus"] > 0 for i in info)
    finally:
        envs.close()


def test_trained_at_the_interval() -> None:
    envs = BonusVectorWrapper(vector(), "rnd", train_every=30)
    before = copy.deepcopy(envs.reward.predictor.state_dict())
    walk(envs, steps=40)
    assert envs.reward.updates == 4
    after = envs.reward.predictor.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_save_and_load_continue(tmp_path: Any) -> None:
    def make() -> BonusVectorWrapper:
        return BonusVectorWrapper(
            vector(AutoresetMode.SAME_STEP), lambda o, a: mmrs.Scaled(mmrs.make("ride", o, a)), train_every=31
        )

    envs, other = make(), make()
    walk(envs, 50)
    envs.save(tmp_path / "bonus")
    other.load(tmp_path / "bonus")
    for one, two in zip(walk(envs, 50, 1), walk(other, 50, 1), strict=True):
        np.testing.assert_array_equal(one["bonus"], two["bonus"])


def test_errors_say_what_to_do(tmp_path: Any) -> None:
    with pytest.raises(NotCausalError, match="Gymnasium wrapper"):
        BonusVectorWrapper(vector(), "mmrs")
    with pytest.raises(NotCausalError):
        BonusVectorWrapper(vector(), Hindsight)
    with pytest.raises(UnsupportedSpaceError, match="Dict"):
        BonusVectorWrapper(vector(kind="dict"), "rnd")
    envs = vector()
    envs.metadata = {}
    with pytest.raises(InputError, match="autoreset mode"):
        BonusVectorWrapper(envs, "rnd")
    with pytest.raises(InputError, match="at least 1 step"):
        BonusVectorWrapper(vector(), "rnd", train_every=0)
    state_file.save(tmp_path / "other", {"weights": torch.zeros(1)})
    with pytest.raises(InputError, match="holds no bonus"):
        BonusVectorWrapper(vector(), "rnd").load(tmp_path / "other")
    torch.save({"bonus": {"weight": 1.0}}, tmp_path / "old")
    with pytest.raises(InputError, match=r"written by torch\.save"):
        BonusVectorWrapper(vector(), "rnd").load(tmp_path / "old")
    assert gym.vector.VectorWrapper in BonusVectorWrapper.__mro__
