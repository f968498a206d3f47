"""RLlib's new API stack, with the real library: its learner on given episodes, and one small cluster."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # Ray and its imports warn about themselves
    pytest.mark.timeout(280),
]
ray = pytest.importorskip("ray")

from gymnasium import spaces  # noqa: E402
from ray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner  # noqa: E402
from ray.rllib.core import DEFAULT_MODULE_ID  # noqa: E402
from ray.rllib.core.learner.training_data import TrainingData  # noqa: E402
from ray.rllib.env.single_agent_episode import SingleAgentEpisode  # noqa: E402
from tests.support.adapter_worlds import Constant, Hindsight, Reached, gae_by_hand  # noqa: E402
from tests.support.rllib import learner, ppo, same_state, walks  # noqa: E402

import mmrs  # noqa: E402
from mmrs.adapters.rllib import BonusLearner, with_bonus  # noqa: E402
from mmrs.errors import InputError, UnsupportedSpaceError  # noqa: E402


def updated(config: PPOConfig, episodes: list[SingleAgentEpisode]) -> dict[str, torch.Tensor]:
    built = learner(config)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 (minibatches are drawn from it)
    built.update(
        training_data=TrainingData(episodes=copy.deepcopy(episodes)),
        num_epochs=2,
        minibatch_size=32,
        shuffle_batch_per_epoch=True,
    )
    return {name: value.clone() for name, value in built.module[DEFAULT_MODULE_ID].state_dict().items()}


def distance(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> float:
    return max(float((left[name] - right[name]).abs().max()) for name in left)


def test_weight_zero_changes_nothing() -> None:
    plain = updated(ppo(), walks())
    for name in ("rnd", "mmrs", "ride"):
        assert distance(plain, updated(with_bonus(ppo(), name, weight=0.0), walks())) == 0.0
    assert distance(plain, updated(with_bonus(ppo(), "rnd", weight=1.0), walks())) > 1e-4


def test_constant_bonus_equals_environment_that_returns_it() -> None:
    paid = updated(ppo(), walks(constant=0.75))
    bonus = updated(with_bonus(ppo(), Constant), walks(constant=0.25))
    assert distance(paid, bonus) <= 1e-5
    assert distance(paid, updated(ppo(), walks(constant=0.25))) > 1e-4


def test_value_targets_are_those_of_the_bonus() -> None:
    """With no extrinsic reward RLlib's own GAE must see the bonus, and never at the artificial last step."""
    built, episodes = learner(with_bonus(ppo(), Reached, weight=0.25)), walks()
    originals = copy.deepcopy(episodes)
    batch = built._learner_connector(rl_module=built.module, batch={}, episodes=episodes, shared_data={})
    batch, at = batch[DEFAULT_MODULE_ID], 0
    assert any(e.is_terminated for e in originals)
    assert any(not e.is_done for e in originals)
    for episode in originals:
        obs, length = np.asarray(episode.get_observations()), len(episode)
        with torch.no_grad():
            values = built.module[DEFAULT_MODULE_ID].compute_values({"obs": torch.from_numpy(obs)}).numpy()
        rewards = 0.25 * obs[1:, 0]  # the true successors
        dones = np.zeros((length, 1))
        dones[-1] = episode.is_terminated
        expected = gae_by_hand(rewards[:, None], values[:-1, None], values[-1:], dones, 0.9, 0.8)[:, 0] + values[:-1]
        np.testing.assert_allclose(batch["value_targets"][at : at + length].numpy(), expected, atol=1e-5)
        np.testing.assert_array_equal(batch["rewards"][at : at + length].numpy(), rewards.astype(np.float32))
        assert batch["rewards"][at + length] == 0.0
        assert not batch["loss_mask"][at + length]
        at += length + 1


def test_the_last_bonus_is_that_of_the_true_last_state() -> None:
    built, episodes = learner(with_bonus(ppo(), Reached)), walks()
    for episode in episodes:
        episode.rewards.data.flags.writeable = False  # as it comes out of Ray's object store
    built.bonus(episodes=episodes, batch={})
    ended = [episode for episode in episodes if episode.is_terminated]
    assert ended
    assert all(episode.get_rewards()[-1] == 5 for episode in ended)


def test_memory_is_kept_per_episode_over_fragments() -> None:
    config = with_bonus(ppo(), "jfi", observation_space=spaces.Discrete(6))
    whole, parts = learner(config), learner(config)
    episodes = numbered(walks())
    halves = [[e[: len(e) // 2] for e in episodes], [e[len(e) // 2 :] for e in episodes]]
    whole.bonus(episodes=episodes, batch={})
    for half in halves:
        parts.bonus(episodes=half, batch={})
    for episode, first, second in zip(episodes, *halves, strict=True):
        joined = np.concatenate([first.get_rewards(), second.get_rewards()])
        np.testing.assert_allclose(joined, episode.get_rewards(), atol=1e-6)
        assert len(second) == 0 or second.t_started == len(first)


def numbered(episodes: list[SingleAgentEpisode]) -> list[SingleAgentEpisode]:
    """The walks with the number of the cell as Discrete observation."""
    return [
        SingleAgentEpisode(
            id_=e.id_,
            observations=[int(o[0]) for o in e.get_observations()],
            actions=[int(a) for a in e.get_actions()],
            rewards=[0.0] * len(e),
            terminated=e.is_terminated,
            truncated=e.is_truncated,
            len_lookback_buffer=0,
        ).to_numpy()
        for e in episodes
        if len(e) > 1
    ]


def test_state_holds_reward_and_memory() -> None:
    config = with_bonus(ppo(), lambda o, a: mmrs.Scaled(mmrs.make("ride", o, a, memory_size=8)))
    one, other = learner(config), learner(config)
    one.bonus(episodes=walks(), batch={})
    other.set_state(one.get_state())
    assert same_state(one.bonus, other.bonus)
    assert "mmrs" not in one.get_state(components="rl_module")  # weights for env runners travel without it
    again, twin = walks(), walks()
    one.bonus(episodes=again, batch={})
    other.bonus(episodes=twin, batch={})
    for left, right in zip(again, twin, strict=True):
        np.testing.assert_array_equal(left.get_rewards(), right.get_rewards())


def test_a_damaged_or_old_state_is_refused() -> None:
    bonus = learner(with_bonus(ppo(), "rnd")).bonus
    content, old = bytearray(bonus.get_state()["bytes"]), io.BytesIO()
    content[len(content) // 2] ^= 1
    torch.save({"reward": {}, "memory": {}}, old)
    for wrong, reason in ((bytes(content), "damaged"), (old.getvalue(), r"written by torch\.save")):
        with pytest.raises(InputError, match=rf"cannot be read.*{reason}"):
            bonus.set_state({"bytes": wrong})


def test_own_learner_class_is_kept() -> None:
    class Mine(PPOTorchLearner):
        pass

    made = with_bonus(ppo().training(learner_class=Mine), "rnd").learner_class
    assert issubclass(made, BonusLearner)
    assert issubclass(made, Mine)


def test_errors_say_what_to_do() -> None:
    with pytest.raises(InputError, match="works with PPOConfig"):
        with_bonus(DQNConfig(), "rnd")
    with pytest.raises(InputError, match="single-agent"):
        with_bonus(PPOConfig().multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *_, **__: "a"), "rnd")
    with pytest.raises(InputError, match="new API stack"):
        old = PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
        with_bonus(old, "rnd")
    with pytest.raises(UnsupportedSpaceError, match="jfi counts"):
        learner(with_bonus(ppo(), "jfi"))
    learner(with_bonus(ppo(), Hindsight)).bonus(
        episodes=walks(), batch={}
    )  # a learner sees rollouts: any reward will do


# --- a cluster ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        quiet = {"logging_level": "ERROR", "log_to_driver": False}
        ray.init("local", num_cpus=4, include_dashboard=False, object_store_memory=100_000_000, **quiet)
        yield
        ray.shutdown()


def states(algorithm: Any) -> list[Any]:
    """State of the bonus on every learner."""
    return algorithm.learner_group.foreach_learner(lambda learner: learner.bonus.get_state()["bytes"])


@pytest.mark.slow
@pytest.mark.ray
def test_cluster(cluster: None, tmp_path: Any) -> None:
    """Two env runners and two learners: they train in step, lose a runner, go on, and come back from a checkpoint."""
    config = with_bonus(
        ppo().environment("CartPole-v1")  # workers cannot import modules of the tests
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2)
        .learners(num_learners=2, num_gpus_per_learner=0)
        .fault_tolerance(restart_failed_env_runners=True),
        "rnd",
    )  # fmt: skip
    check_weight_zero_changes_nothing()
    algorithm = config.build_algo()
    try:
        for _ in range(2):
            result = algorithm.train()
        assert result["learners"]["mmrs"]["bonus"] > 0
        updates = algorithm.learner_group.foreach_learner(lambda learner: learner.bonus.reward_host.reward.updates)
        assert [r.get() for r in updates] == [2, 2]
        check_in_step(algorithm)

        ray.kill(algorithm.env_runner_group._worker_manager.actors()[1], no_restart=False)
        group = algorithm.env_runner_group
        for iteration in range(40):  # training goes on with the other runner until the lost one is back
            algorithm.train()
            if iteration > 0 and group.num_healthy_remote_workers() == 2:
                break
        assert group.num_healthy_remote_workers() == 2
        check_in_step(algorithm)

        path, before = algorithm.save_to_path(tmp_path / "checkpoint"), [state.get() for state in states(algorithm)]
    finally:
        algorithm.stop()  # the cluster has room for one of them

    restored = type(algorithm).from_checkpoint(path)
    try:
        assert [state.get() for state in states(restored)] == before
        restored.train()
        check_in_step(restored)
    finally:
        restored.stop()


def check_in_step(algorithm: Any) -> None:
    one, other = (state.get() for state in states(algorithm))
    assert one == other


def check_weight_zero_changes_nothing() -> None:
    def weights(config: PPOConfig) -> dict[str, Any]:
        algorithm = config.build_algo()
        try:
            algorithm.train()
            return {name: np.array(value) for name, value in algorithm.get_module().get_state().items()}
        finally:
            algorithm.stop()

    plain, zero = weights(ppo()), weights(with_bonus(ppo(), "rnd", weight=0.0))
    assert all(np.array_equal(plain[name], zero[name]) for name in plain)
