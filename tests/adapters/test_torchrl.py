"""The TorchRL hook on batches of a real collector."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore")  # TorchRL announces its next release

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torchrl.collectors")
from tests.support.adapter_worlds import Constant, Reached, gae_by_hand, line  # noqa: E402
from torchrl.collectors import Collector  # noqa: E402
from torchrl.collectors.utils import split_trajectories  # noqa: E402
from torchrl.envs import SerialEnv  # noqa: E402
from torchrl.envs.libs.gym import GymWrapper  # noqa: E402
from torchrl.modules import ValueOperator  # noqa: E402
from torchrl.objectives.value import GAE  # noqa: E402

import mmrs  # noqa: E402
from mmrs.adapters.torchrl import BonusHook  # noqa: E402
from mmrs.errors import InputError  # noqa: E402

SPACES = (line().observation_space, line().action_space)


def batches(kind: str = "box", constant: float = 0.0, count: int = 2, envs: int = 2) -> list[Any]:
    torch.manual_seed(0)
    make = partial(line, kind, 0.25, constant)
    env = SerialEnv(envs, lambda: GymWrapper(make())) if envs > 1 else GymWrapper(make())
    env.set_seed(0)
    collector = Collector(env, None, frames_per_batch=40 * envs, total_frames=40 * envs * count)
    found = [batch.clone() for batch in collector]
    collector.shutdown()
    return found


def advantage() -> GAE:
    torch.manual_seed(1)
    critic = ValueOperator(nn.Linear(2, 1), in_keys=["observation"])
    return GAE(gamma=0.9, lmbda=0.8, value_network=critic)


def test_weight_zero_changes_nothing() -> None:
    (plain, _), (hosted, _) = batches(), batches()
    BonusHook(mmrs.make("rnd", *SPACES), weight=0.0)(hosted)
    for key in (("next", "reward"), "advantage", "value_target"):
        left, right = (batch if key[0] == "next" else advantage()(batch.clone()) for batch in (plain, hosted))
        assert torch.equal(left[key], right[key])


def test_constant_bonus_equals_environment_that_returns_it() -> None:
    (paid, _), (bonus, _) = batches(constant=0.5), batches()
    BonusHook(Constant(*SPACES))(bonus)
    for key in ("advantage", "value_target"):
        torch.testing.assert_close(advantage()(paid.clone())[key], advantage()(bonus.clone())[key], atol=1e-5, rtol=0)
    assert not torch.allclose(paid["next", "reward"], batches()[0]["next", "reward"])


def test_advantages_change_by_exactly_the_bonus_of_the_true_last_state() -> None:
    batch = batches()[0]
    before = advantage()(batch.clone())["advantage"]
    BonusHook(Reached(*SPACES), weight=0.25)(batch)
    after = advantage()(batch.clone())["advantage"]
    reached = 0.25 * batch["next", "observation"][..., 0].T.numpy()  # the true successors, [T, N]
    dones = batch["next", "done"].squeeze(-1).T.numpy()
    zeros = np.zeros_like(reached)
    change = gae_by_hand(reached, zeros, zeros[0], dones, 0.9, 0.8)
    np.testing.assert_allclose((after - before).squeeze(-1).T.numpy(), change, atol=1e-5)
    ended = batch["next", "terminated"]
    assert ended.any()
    assert (batch["next", "reward"][ended] == 0.25 + 0.25 * 5).all()
    assert (batch["next", "extrinsic_reward"] == 0.25).all()


@pytest.mark.parametrize("envs", [1, 2])
def test_memory_runs_through_batches(envs: int) -> None:
    """One-hot observations and actions are understood, and counts go on from batch to batch."""
    space = line("discrete").observation_space
    hook, one = BonusHook(mmrs.make("jfi", space, SPACES[1])), mmrs.make("jfi", space, SPACES[1])
    first, second = batches("discrete", envs=envs)
    rollouts = [hook.rollout(batch) for batch in (first, second)]
    for batch in (first, second):
        hook(batch)
    _, memory = one.compute(rollouts[0])
    expected, memory = one.compute(rollouts[1], memory)
    paid = (second["next", "reward"] - second["next", "extrinsic_reward"]).reshape(envs, -1).T
    torch.testing.assert_close(paid, expected.float(), atol=1e-6, rtol=0)
    assert torch.equal(hook.reward_host.memory["counts"], memory["counts"])
    assert rollouts[0].obs.unique().tolist() == [0, 1, 2, 3, 4][: len(rollouts[0].obs.unique())]


def test_state_indices_are_not_taken_for_one_hot() -> None:
    """Also where a batch has as many steps as there are states."""
    space = line("discrete").observation_space
    batch = batches("discrete")[0][:, : space.n].clone()
    expected = BonusHook(mmrs.make("jfi", space, SPACES[1])).rollout(batch)
    for part in (batch, batch["next"]):
        part["observation"] = part["observation"].long().argmax(-1)
    found = BonusHook(mmrs.make("jfi", space, SPACES[1])).rollout(batch)
    assert torch.equal(expected.obs, found.obs)


def test_a_reset_between_batches_starts_new_episodes() -> None:
    space = line("discrete").observation_space
    hook, batch = BonusHook(mmrs.make("jfi", space, SPACES[1])), batches("discrete")[0][:, :4].clone()
    hook(batch.clone())
    paid = batch.clone()
    hook(paid)  # the collector was reset: the same first steps again
    first = batch.clone()
    BonusHook(mmrs.make("jfi", space, SPACES[1]))(first)
    assert torch.equal(paid["next", "reward"], first["next", "reward"])


def test_errors_say_what_to_do() -> None:
    first, second = batches(count=2)
    with pytest.raises(InputError, match=r"expected \[T\] or \[N, T\]"):
        BonusHook(Reached(*SPACES)).rollout(torch.stack([first, second]))
    with pytest.raises(InputError, match="split_trajs=False"):
        BonusHook(Reached(*SPACES))(split_trajectories(first))
