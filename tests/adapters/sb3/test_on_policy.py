"""Stable-Baselines3, on-policy, with the real library."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation
from sb3_contrib import TRPO, MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from tests.support.adapter_worlds import (
    Constant,
    Hindsight,
    Reached,
    gae_by_hand,
    generators,
    line,
    restore,
    same_weights,
    weight_distance,
)

import mmrs
from mmrs.adapters.sb3 import BonusCallback
from mmrs.errors import InputError, UnsupportedSpaceError

SMALL: dict[Any, dict[str, Any]] = {
    PPO: {"n_steps": 32, "batch_size": 32, "n_epochs": 2},
    A2C: {"n_steps": 16},
    TRPO: {"n_steps": 32, "batch_size": 32},
    RecurrentPPO: {"n_steps": 32, "batch_size": 32, "n_epochs": 2},
    MaskablePPO: {"n_steps": 32, "batch_size": 32, "n_epochs": 2},
}
ALGORITHMS = pytest.mark.parametrize("algorithm", SMALL, ids=lambda a: a.__name__)


def make(algorithm: Any, env: Any = None, **options: Any) -> Any:
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPO else "MlpPolicy"
    env = DummyVecEnv([line] * 2) if env is None else env
    net = {"net_arch": [16], **({"lstm_hidden_size": 8} if algorithm is RecurrentPPO else {})}
    settings = {**SMALL[algorithm], "policy_kwargs": net, "seed": 3, "device": "cpu", "gamma": 0.9, **options}
    return algorithm(policy, env, **settings)


def learn(algorithm: Any, callback: Any = None, steps: int = 192, env: Any = None, **options: Any) -> Any:
    return make(algorithm, env, **options).learn(steps, callback=callback)


class Spy(BaseCallback):
    """Keeps what the learner is about to use, rollout by rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.rollouts: list[dict[str, np.ndarray]] = []
        self.infos: list[Any] = []

    def _on_step(self) -> bool:
        self.infos.append([dict(info) for info in self.locals["infos"]])
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.model.rollout_buffer
        names = ("rewards", "advantages", "returns", "values", "episode_starts", "observations")
        kept = {name: getattr(buffer, name).copy() for name in names}
        last = self.model._last_episode_starts
        kept["dones"] = np.concatenate([kept["episode_starts"][1:], last[None]])
        self.rollouts.append(kept)


@ALGORITHMS
def test_weight_zero_changes_nothing(algorithm: Any) -> None:
    plain = learn(algorithm)
    hosted = learn(algorithm, BonusCallback("rnd", weight=0.0))
    assert same_weights(plain.policy, hosted.policy)
    other = learn(algorithm, BonusCallback("rnd", weight=1.0))
    assert not same_weights(plain.policy, other.policy)  # else the bonus would not reach the update


@pytest.mark.parametrize("name", ["mmrs", "re3", "ride", "jfi", "coverage"])
def test_weight_zero_changes_nothing_with_any_reward(name: str) -> None:
    env = partial(line, "discrete")
    plain, bonus = learn(PPO, env=DummyVecEnv([env] * 2)), BonusCallback(name, weight=0.0)
    assert same_weights(plain.policy, learn(PPO, bonus, env=DummyVecEnv([env] * 2)).policy)


@ALGORITHMS
def test_constant_bonus_equals_environment_that_returns_it(algorithm: Any) -> None:
    # 0.3 is no float32 number and values are arbitrary: rounding in another order would show.
    paid = learn(algorithm, env=DummyVecEnv([partial(line, pays=0.3, constant=0.5)] * 2))
    bonus = learn(algorithm, BonusCallback(Constant, weight=1.0), env=DummyVecEnv([partial(line, pays=0.3)] * 2))
    if algorithm in (PPO, A2C, TRPO, MaskablePPO):
        assert same_weights(paid.policy, bonus.policy)
    assert weight_distance(paid.policy, bonus.policy) <= 1e-5
    plain = learn(algorithm, env=DummyVecEnv([partial(line, pays=0.3)] * 2))
    assert weight_distance(paid.policy, plain.policy) > 1e-4


@ALGORITHMS
def test_advantages_are_those_of_the_bonus(algorithm: Any) -> None:
    """With no extrinsic reward the learner must see the bonus, discounted, and nothing else."""
    bonus, spy = BonusCallback(Reached, weight=0.25), Spy()
    model, asked = make(algorithm, gae_lambda=0.8, n_steps=32), []
    compute = model.rollout_buffer.compute_returns_and_advantage

    def listen(last_values: torch.Tensor, dones: np.ndarray) -> None:
        asked.append(last_values.clone().numpy().flatten())
        compute(last_values, dones)

    model.rollout_buffer.compute_returns_and_advantage = listen
    model.learn(64, callback=[bonus, spy])
    kept, values = spy.rollouts[-1], asked[0]  # the values that Stable-Baselines3 itself used
    expected = gae_by_hand(kept["rewards"], kept["values"], values, kept["dones"], 0.9, 0.8)
    np.testing.assert_allclose(kept["advantages"], expected, atol=1e-5)
    np.testing.assert_allclose(kept["returns"], expected + kept["values"], atol=1e-5)
    ends = kept["dones"] > 0
    timed_out = np.array([[info.get("TimeLimit.truncated", False) for info in row] for row in spy.infos])[-len(ends) :]
    assert timed_out.any()
    assert (ends & ~timed_out).any()
    # Where no value was bootstrapped into the reward it is the weighted bonus and nothing else.
    cell = np.concatenate([kept["observations"][1:, :, 0], np.full((1, 2), np.nan)])
    inside = ~ends & ~np.isnan(cell)
    np.testing.assert_array_equal(kept["rewards"][inside], 0.25 * cell[inside])
    np.testing.assert_array_equal(kept["rewards"][ends & ~timed_out], np.float32(0.25 * 5))


@pytest.mark.parametrize("kind", ["box", "discrete"])
def test_the_last_bonus_is_that_of_the_true_last_state(kind: str) -> None:
    spy = Spy()
    learn(PPO, [BonusCallback(Reached), spy], env=DummyVecEnv([partial(line, kind)] * 2))
    ends = np.concatenate([kept["dones"] for kept in spy.rollouts]) > 0
    timed_out = np.array([[info.get("TimeLimit.truncated", False) for info in row] for row in spy.infos])
    rewards = np.concatenate([kept["rewards"] for kept in spy.rollouts])
    assert (ends & ~timed_out).sum() > 3
    assert (rewards[ends & ~timed_out] == 5).all()  # cell 2, where the next episode starts, would pay 2


def test_memory_runs_through_rollouts_and_episodes() -> None:
    """Counts of an episode go on in the next rollout, as if there had been one long one."""
    seen: list[Any] = []

    class Watched(BonusCallback):
        def _rollout(self) -> Any:
            seen.append(super()._rollout())
            return seen[-1]

    callback = Watched("jfi")
    learn(A2C, callback, steps=2 * 5 * 12, env=DummyVecEnv([partial(line, "discrete")] * 2), n_steps=5)
    whole = mmrs.Rollout(
        obs=torch.cat([*(r.obs[:-1] for r in seen), seen[-1].obs[-1:]]),
        actions=torch.cat([r.actions for r in seen]),
        terminated=torch.cat([r.terminated for r in seen]),
        truncated=torch.cat([r.truncated for r in seen]),
        final_obs=torch.cat([r.final_obs for r in seen]),
    )
    _, memory = callback.reward.compute(whole)
    assert torch.equal(callback.reward_host.memory["counts"], memory["counts"])
    assert callback.reward_host.memory["counts"].sum() > 2


def test_second_learn_starts_new_episodes() -> None:
    callback = BonusCallback("jfi")
    model = make(A2C, DummyVecEnv([partial(line, "discrete")] * 2), n_steps=5)
    model.learn(10, callback=callback)
    assert not callback.reward_host.memory["starts_episode"].any()
    callback.init_callback(model)
    model._setup_learn(10, None)
    callback.on_training_start({}, {})
    assert callback.reward_host.memory["starts_episode"].all()


@pytest.mark.parametrize(("which", "top"), [("policy", 4.0), ("original", 5.0)])
def test_vec_normalize(which: str, top: float) -> None:
    spy, callback = Spy(), BonusCallback(Reached, observations=which)
    learn(PPO, [callback, spy], env=VecNormalize(DummyVecEnv([line] * 2), norm_reward=False))
    ends = np.concatenate([kept["dones"] for kept in spy.rollouts]) > 0
    timed_out = np.array([[info.get("TimeLimit.truncated", False) for info in row] for row in spy.infos])
    rewards = np.concatenate([kept["rewards"] for kept in spy.rollouts])[ends & ~timed_out]
    if which == "original":
        np.testing.assert_allclose(rewards, 5.0, atol=1e-4)
    else:
        assert (rewards < top).all()
        assert (rewards > 0).all()


def test_original_observations_are_the_environment_s_own() -> None:
    seen: list[Any] = []

    class Watched(BonusCallback):
        def _rollout(self) -> Any:
            seen.append(super()._rollout())
            return seen[-1]

    learn(PPO, Watched(Reached, observations="original"), env=VecNormalize(DummyVecEnv([line] * 2)))
    cells = torch.cat([rollout.obs[..., 0] for rollout in seen])
    assert set(cells.unique().tolist()) <= {0.0, 1.0, 2.0, 3.0, 4.0}


def test_dict_observations_show_one_entry() -> None:
    env = DummyVecEnv([partial(line, "dict")] * 2)
    model = PPO("MultiInputPolicy", env, n_steps=16, batch_size=32, device="cpu")
    model.learn(64, callback=BonusCallback("rnd", obs_key="cell"))
    with pytest.raises(UnsupportedSpaceError, match=r"obs_key= one of them"):
        PPO("MultiInputPolicy", env, n_steps=16, batch_size=32, device="cpu").learn(64, callback=BonusCallback("rnd"))


def test_image_rewards_are_made_for_channels_first() -> None:
    space = spaces.Box(0, 255, (40, 40, 3), np.uint8)
    model = make(PPO, DummyVecEnv([partial(picture_env, space)]), n_steps=8, batch_size=8)
    model.learn(8, callback=BonusCallback("rnd"))
    made_before = mmrs.make("rnd", space, spaces.Discrete(2))
    with pytest.raises(InputError, match="puts channels first"):
        make(PPO, DummyVecEnv([partial(picture_env, space)]), n_steps=8, batch_size=8).learn(
            8, callback=BonusCallback(made_before)
        )


def picture_env(space: spaces.Box) -> Any:
    return TransformObservation(line(), lambda _: np.zeros(space.shape, np.uint8), space)


def test_terms_and_training_are_logged() -> None:
    logged: dict[str, float] = {}

    class Keep(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            logged.update(self.logger.name_to_value)

    learn(PPO, [BonusCallback("mmrs", weight=0.5), Keep()], steps=64)
    assert {"mmrs/bonus", "mmrs/term/global", "mmrs/term/local", "mmrs/extrinsic"} <= logged.keys()
    assert logged["mmrs/bonus"] == pytest.approx(logged["mmrs/term/global"] + logged["mmrs/term/local"], abs=1e-6)


@pytest.mark.parametrize("name", ["mmrs", "rnd", "jfi"])
def test_save_load_learn_continues_as_if_never_stopped(name: str, tmp_path: Any) -> None:
    def scaled(obs: Any, act: Any) -> mmrs.IntrinsicReward:
        return mmrs.Scaled(mmrs.make(name, obs, act))

    kind = "discrete" if name == "jfi" else "box"
    callback, model = BonusCallback(scaled, weight=0.3), make(PPO, DummyVecEnv([partial(line, kind)] * 2))
    model.learn(128, callback=callback)
    model.save(tmp_path / "model")
    callback.save(tmp_path / "bonus")
    env, untouched, states = copy.deepcopy(model.get_env()), copy.deepcopy(model.get_env()), generators()
    model.learn(128, callback=callback, reset_num_timesteps=False)

    resumed = BonusCallback(scaled, weight=0.3)
    resumed.load(tmp_path / "bonus")
    second = PPO.load(tmp_path / "model", env=env, device="cpu", force_reset=False)
    restore(states)  # Stable-Baselines3 saves neither generators nor environments
    second.learn(128, callback=resumed, reset_num_timesteps=False)
    assert same_weights(model.policy, second.policy)
    assert callback.reward.updates == resumed.reward.updates == 4
    flat = torch.utils._pytree.tree_leaves
    for one, other in zip(flat(callback.reward_host.state_dict()), flat(resumed.reward_host.state_dict()), strict=True):
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other

    forgot = PPO.load(tmp_path / "model", env=untouched, device="cpu", force_reset=False)
    restore(states)
    forgot.learn(128, callback=BonusCallback(scaled, weight=0.3), reset_num_timesteps=False)
    assert not same_weights(model.policy, forgot.policy)


def test_errors_say_what_to_do(tmp_path: Any) -> None:
    with pytest.raises(InputError, match=r"ReplayBonusCallback"):
        DQN("MlpPolicy", line(), device="cpu").learn(8, callback=BonusCallback("rnd"))
    with pytest.raises(InputError, match="Did you mean"):
        learn(PPO, BonusCallback("rndd"))
    with pytest.raises(InputError, match="expected an mmrs reward"):
        learn(PPO, BonusCallback(lambda obs, act: 3))
    with pytest.raises(UnsupportedSpaceError, match="jfi counts"):
        learn(PPO, BonusCallback("jfi"))
    with pytest.raises(InputError, match="does not exist"):
        BonusCallback("rnd").load(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"once learn\(\) has been called"):
        BonusCallback("rnd").save(tmp_path / "nothing")
    with pytest.raises(InputError, match="finite"):
        learn(PPO, BonusCallback("rnd", weight=float("nan")))
    learn(PPO, BonusCallback(Hindsight), steps=64)  # PPO collects rollouts: any reward will do


def test_missing_terminal_observation_is_refused() -> None:
    class Forgetful(DummyVecEnv):
        def step_wait(self) -> Any:
            obs, rewards, dones, infos = super().step_wait()
            for info in infos:
                info.pop("terminal_observation", None)
            return obs, rewards, dones, infos

    with pytest.raises(InputError, match="terminal_observation"):
        learn(PPO, BonusCallback("rnd"), env=Forgetful([line] * 2))
