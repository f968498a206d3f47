"""One test for each trap that other implementations fell into; the comment says how they failed."""

import inspect
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from tests.support.rollouts import (
    ACTIONS,
    FACTORIES,
    MOVES,
    OBSERVATIONS,
    assert_same,
    frozen,
    make_rollout,
    observed_by,
    parts,
    small,
)

import mmrs
from mmrs.functional.returns import gae
from mmrs.nets.normalization import RunningNorm
from mmrs.rewards import IntrinsicReward

VECTOR, NUMBERS = OBSERVATIONS["vector"], OBSERVATIONS["discrete"]


class Constant(IntrinsicReward):
    """A bonus of one at every step."""

    causal = True

    def score(self, rollout, memory):
        return {"one": torch.ones_like(rollout.valid, dtype=torch.float64)}, memory


def advantages(add_bonus_before_gae):
    """Advantages of a constant bonus over 64 steps without extrinsic reward or value."""
    rollout = make_rollout(VECTOR, steps=64, envs=2, end=0.0)
    extrinsic, none = torch.zeros(64, 2, dtype=torch.float64), torch.zeros(64, 2, dtype=torch.bool)
    bonus, _ = Constant(VECTOR, MOVES).compute(rollout)
    how = {"gamma": 0.99, "lam": 0.95}
    if add_bonus_before_gae:
        return gae(extrinsic + bonus, torch.zeros_like(bonus), torch.zeros_like(bonus), none, none, **how)
    return gae(extrinsic, torch.zeros_like(bonus), torch.zeros_like(bonus), none, none, **how) + bonus


def is_closed_form(found):
    rate, left = 0.99 * 0.95, torch.arange(64, 0, -1, dtype=torch.float64)
    return torch.allclose(found, ((1 - rate**left) / (1 - rate)).unsqueeze(1).expand(64, 2))


def test_bonus_added_after_gae():
    # rllte computed returns before it added the bonus; RLeXplore's notebook added it to advantages, undiscounted.
    assert is_closed_form(advantages(add_bonus_before_gae=True))
    assert not is_closed_form(advantages(add_bonus_before_gae=False))


def test_return_filter_runs_over_time_not_environments():
    # CleanRL #360: the discounted return ran from environment to environment, so its std was that of one step.
    scaled = mmrs.Scaled(Constant(VECTOR, MOVES), gamma=0.9)
    _, memory = scaled.compute(make_rollout(VECTOR, steps=30, envs=5))
    expected = (1 - 0.9**30) / (1 - 0.9)
    torch.testing.assert_close(memory["scale"]["trace"], torch.full((5,), expected, dtype=torch.float64))


def test_filtered_returns_do_not_replace_rewards():
    # rllte's scale returned 1, 1.99, 2.97, ... for rewards of 1, 1, 1, ...
    inner = small("rnd", VECTOR)
    scaled, rollout, memory = mmrs.Scaled(inner), make_rollout(VECTOR, steps=40, envs=4), None
    for _ in range(5):
        reward, memory = scaled.compute(rollout, memory)
    ratio = reward / inner.compute(rollout)[0]
    assert ratio.std(1).max() < 1e-5 * ratio.mean()  # one divisor for all environments at a step
    assert ratio.std() < 0.05 * ratio.mean()  # and one that hardly changes after a few rollouts


@pytest.mark.parametrize("name", ["rnd", "ride", "jfi", "count_bonus"])
def test_the_successor_at_an_end_is_the_last_state_not_the_reset(name):
    # RLeXplore's CleanRL example took obs[1:], the next episode's first state, for the successor.
    space = NUMBERS if name in ("jfi", "count_bonus") else VECTOR
    marks = (np.zeros((4, 1), bool), np.zeros((4, 1), bool), np.ones((4, 1), bool))
    marks[0][1, 0] = True
    rollout = make_rollout(space, steps=4, envs=1, marks=marks)
    bonus, fields = small(name, space), parts(rollout)
    if name == "jfi":
        fields["obs"][:, 0] = torch.tensor([0, 1, 2, 3, 4])
        fields["final_obs"][:] = 5
        rollout = mmrs.Rollout(**fields)
        revisit = mmrs.Rollout(**fields | {"final_obs": torch.tensor([0])})
        assert bonus.compute(rollout)[0][1] > bonus.compute(revisit)[0][1]
        return
    reset = {**fields, "obs": fields["obs"].clone()}
    reset["obs"][2] = fields["obs"][0]
    assert torch.equal(bonus.compute(mmrs.Rollout(**reset))[0][:2], bonus.compute(rollout)[0][:2])
    if name in ("rnd", "ride"):
        last = mmrs.Rollout(**{**fields, "final_obs": fields["final_obs"] + 1})
        assert not torch.equal(bonus.compute(last)[0][1], bonus.compute(rollout)[0][1])


def test_done_is_of_this_step_and_counts_start_with_the_next():
    # RLeXplore passed the previous step's done; rllte's E3B reset its ellipsoid one step late.
    marks = (np.zeros((4, 1), bool), np.zeros((4, 1), bool), np.ones((4, 1), bool))
    marks[1][1, 0] = True
    fields = parts(make_rollout(NUMBERS, steps=4, envs=1, marks=marks))
    fields["obs"][:, 0] = torch.tensor([0, 1, 0, 1, 0])
    fields["final_obs"][:] = 0
    rollout = mmrs.Rollout(**fields)
    reward = mmrs.make("count_bonus", NUMBERS, MOVES, weight=1.0).compute(rollout)[0].flatten()
    assert reward.tolist() == pytest.approx([1.0, 1 / math.sqrt(2), 1.0, 1 / math.sqrt(2)])
    ride = small("ride", NUMBERS).compute(rollout)[0].flatten()
    torch.testing.assert_close(ride[2:], ride[:2])


def test_dummy_steps_of_next_step_autoreset_are_not_learned_from():
    # Gymnasium's default mode inserts a step without an action after each end; learners took it for a transition.
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    recorder = mmrs.RolloutRecorder(AutoresetMode.NEXT_STEP)
    recorder.reset(envs.reset(seed=0)[0])
    for _ in range(60):
        actions = np.zeros(2, int)
        obs, _, terminated, truncated, info = envs.step(actions)
        recorder.add(actions, obs, terminated, truncated, info)
    rollout = recorder.rollout()
    assert (~rollout.valid).any()
    bonus = small("rnd", envs.single_observation_space, envs.single_action_space)
    reward, _ = bonus.compute(rollout)
    bonus.update(rollout)
    assert (reward[~rollout.valid] == 0).all()
    assert bonus.norm.count == rollout.valid.sum()


@pytest.mark.parametrize("actions", ["box", "box_one", "box_grid", "multi_discrete"])
def test_inverse_losses_of_actions_with_several_numbers(actions):
    # rllte multiplied (B, A) by a mask (B,): a crash for A > 1, and silently (B, B) for A = 1.
    bonus = small("ride", VECTOR, ACTIONS[actions])
    metrics = bonus.update(make_rollout(VECTOR, ACTIONS[actions], steps=8, dummies=True))
    assert math.isfinite(metrics["inverse_loss"])


def test_one_sample_has_no_unbiased_variance():
    # rllte: th.var of one sample is NaN, and stays so in the running statistics for ever.
    norm = RunningNorm((3,), floor=1e-3, clip=5.0)
    norm.update(torch.ones(1, 3))
    assert torch.equal(norm.variance, torch.zeros(3, dtype=torch.float64))
    assert norm(torch.ones(1, 3)).isfinite().all()
    reward, memory = mmrs.Scaled(small("rnd", VECTOR)).compute(make_rollout(VECTOR, steps=1, envs=1))
    assert reward.isfinite().all()
    assert memory["scale"]["moments"].isfinite().all()


def test_running_statistics_count_samples_and_merge_exactly():
    # CleanRL passed num_envs as the count of a batch of T * N; RLlib merged means by delta + n / N.
    norm, x = RunningNorm((2,), mean=7.0, std=3.0, floor=1e-3, clip=5.0), torch.randn(100, 2, dtype=torch.float64)
    for part in x.split([1, 9, 60, 30]):
        norm.update(part)
    norm.update(x[:0])
    assert norm.count == 100
    torch.testing.assert_close(norm.mean, x.mean(0))
    torch.testing.assert_close(norm.variance, x.var(0, correction=0))


@pytest.mark.parametrize("by", ["reward", "return"])
@pytest.mark.parametrize("center", [False, True])
def test_a_constant_bonus_has_a_scale(by, center):
    # rllte's min-max divided 0 by 0 on a constant batch.
    scaled, memory = mmrs.Scaled(Constant(VECTOR, MOVES), by=by, center=center), None
    rollout = make_rollout(VECTOR, steps=128, envs=2, end=0.0)
    for _ in range(150):
        reward, memory = scaled.compute(rollout, memory)
        assert reward.isfinite().all()
        assert reward.abs().max() < 100


def test_the_bonus_is_the_distance_not_its_rank():
    # RLlib's RE3 returned the index that argsort gives, so farther states paid no more.
    line = torch.tensor([0.0, 1.0, 2.0, 3.0, 50.0, 51.0])
    rewards = []
    for scale in (1.0, 10.0):
        fields = parts(make_rollout(VECTOR, steps=5, envs=1, end=0.0))
        fields["obs"][:] = 0.0
        fields["obs"][:, 0, 0] = scale * line
        rewards.append(small("re3", VECTOR, k=2).compute(mmrs.Rollout(**fields))[0].flatten())
    near, far = rewards
    torch.testing.assert_close(torch.expm1(far), 10 * torch.expm1(near), rtol=1e-4, atol=1e-5)
    assert near[4] > 5 * near[2]


@pytest.mark.parametrize("name", ["mmrs", "re3", "ride", "rnd", "jfi"])
def test_the_bonus_does_not_stop_after_a_few_batches(name):
    # An RLlib example returned the batch untouched after a debug counter reached 11.
    space = NUMBERS if name == "jfi" else VECTOR
    bonus, memory = small(name, space), None
    for seed in range(30):
        rollout = make_rollout(space, steps=8, seed=seed)
        reward, memory = bonus.compute(rollout, memory)
        bonus.update(rollout)
        assert reward.abs().sum() > 0


@pytest.mark.parametrize("name", FACTORIES)
def test_memory_does_not_grow_with_the_rollouts(name):
    # rllte kept episodic memory in Python lists that only grew, and sorted all of it at each step.
    space = OBSERVATIONS[observed_by(name, "vector")]
    bonus, memory, sizes = FACTORIES[name](space), None, []
    for seed in range(4):
        _, memory = bonus.compute(make_rollout(space, steps=30, seed=seed, end=0.0), memory)
        sizes.append(bytes_in(memory))
    assert len(set(sizes)) == 1


def bytes_in(value):
    return sum(map(bytes_in, value.values())) if isinstance(value, dict) else value.untyped_storage().nbytes()


def test_no_reward_touches_an_environment():
    # rllte's constructors took the user's environment, stepped it 2,560 times and kept it.
    assert list(inspect.signature(mmrs.make).parameters)[:3] == ["name", "observation_space", "action_space"]


@pytest.mark.parametrize("name", FACTORIES)
def test_results_are_no_aliases(name):
    # Tianshou "restored" the reward from an alias of what it had added to in place.
    space = OBSERVATIONS[observed_by(name, "vector")]
    bonus, rollout = FACTORIES[name](space), make_rollout(space)
    reward, memory = bonus.compute(rollout)
    before, terms = frozen(memory), bonus.compute_terms(rollout)[0]
    reward += 1.0
    for term in terms.values():
        term.mul_(2)
    assert_same(memory, before)
    again, _ = bonus.compute(rollout)
    torch.testing.assert_close(again, reward - 1.0)


def test_gradients_of_policy_and_bonus_stay_separate():
    # CleanRL's RND trained policy and predictor with one optimizer and one gradient clip.
    policy = torch.nn.Linear(5, 1)
    bonus, rollout = small("rnd", VECTOR), make_rollout(VECTOR)
    reward, _ = bonus.compute(rollout)
    (policy(rollout.obs[:-1]).squeeze(-1) * reward).sum().backward()
    assert all(p.grad is None for p in bonus.parameters())
    gradient = policy.weight.grad.clone()
    bonus.update(rollout)
    assert torch.equal(policy.weight.grad, gradient)
    owned = {id(p) for group in bonus.optimizer.param_groups for p in group["params"]}
    assert owned == {id(p) for p in bonus.predictor.parameters()}


def test_a_rollout_with_fewer_states_than_k():
    # rllte's RE3 crashed on rollouts of fewer than k + 1 steps, and its update was not implemented.
    bonus, rollout = small("re3", VECTOR, k=50), make_rollout(VECTOR, steps=2, envs=1)
    assert bonus.compute(rollout)[0].isfinite().all()
    assert bonus.update(rollout) == {}


def test_rnd_trains_on_the_states_of_its_bonus():
    # rllte trained on s_t and paid for s_{t+1}: the last state of an episode stayed novel for ever.
    marks = (np.ones((4, 4), bool), np.zeros((4, 4), bool), np.ones((4, 4), bool))
    rollout = make_rollout(VECTOR, steps=4, envs=4, marks=marks)
    bonus = small("rnd", VECTOR)
    bonus.update(rollout)
    first = bonus.compute(rollout)[0].mean()
    for _ in range(40):
        bonus.update(rollout)
    assert bonus.compute(rollout)[0].mean() < 0.5 * first


def test_pixels_are_normalized_one_by_one():
    # TorchRL's statistics had the shape of the last axis: one mean for each column of an image.
    bonus = small("rnd", OBSERVATIONS["image_hwc"])
    assert bonus.norm.mean.shape == (1, 36, 36)


def test_falling_is_a_termination_and_time_is_not():
    # rllte's Bullet adapter reported every fall as a truncation too, and its storage then never punished falling.
    value = torch.ones(1, 2)
    terminated, truncated = torch.tensor([[True, False]]), torch.tensor([[False, True]])
    found = gae(torch.zeros(1, 2), value, value, terminated, truncated, gamma=0.9, lam=0.9)
    torch.testing.assert_close(found, torch.tensor([[-1.0, -0.1]]))
