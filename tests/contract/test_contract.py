"""The contract of a reward, for every registered reward and the wrappers, on every kind of space."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rollouts import (
    ACTIONS,
    CAUSAL,
    DISCRETE_ONLY,
    EXACT,
    FACTORIES,
    LEARNING,
    OBSERVATIONS,
    assert_same,
    cut,
    fits,
    frozen,
    make_rollout,
    observed_by,
    parts,
)

import mmrs
from mmrs.errors import UnsupportedSpaceError
from mmrs.rewards import MMRS, REWARDS

EVERY = pytest.mark.parametrize("name", FACTORIES)
KINDS = ["vector", "image_hwc", "discrete_start"]
PAIRS = [(n, k) for n in FACTORIES for k in KINDS if fits(n, k)]
EVERY_KIND = pytest.mark.parametrize(("name", "kind"), PAIRS)


def both(name, kind="vector", seed=0, **how):
    """A reward and a rollout it reads."""
    kind = observed_by(name, kind)
    return FACTORIES[name](OBSERVATIONS[kind], seed=seed), make_rollout(OBSERVATIONS[kind], **how)


# --- every space ------------------------------------------------------------------------------------------------------


LARGE = ("image_atari", "image_rgb_stack", "image_wide", "image_hw")
EVERY_SPACE = [
    (name, kind, actions)
    for name in FACTORIES
    for kind in OBSERVATIONS
    for actions in (("discrete", "box") if kind in LARGE else ACTIONS)
    if fits(name, kind)
]


@pytest.mark.parametrize(("name", "kind", "actions"), EVERY_SPACE)
def test_reward_is_finite_and_has_one_value_a_step_on_every_space(name, kind, actions):
    obs_space, act_space = OBSERVATIONS[kind], ACTIONS[actions]
    bonus = FACTORIES[name](obs_space, act_space)
    rollout = make_rollout(obs_space, act_space, steps=3, envs=2, end=0.4)
    memory = None
    for _ in range(2):
        reward, memory = bonus.compute(rollout, memory)
        assert reward.shape == (3, 2)
        assert reward.is_floating_point()
        assert not reward.requires_grad
        assert reward.isfinite().all()
        metrics = bonus.update(rollout)
        assert all(np.isfinite(v) for v in metrics.values())
    assert bool(metrics) == (name in LEARNING)


@pytest.mark.parametrize("name", sorted(DISCRETE_ONLY))
@pytest.mark.parametrize("kind", [k for k in OBSERVATIONS if not k.startswith("discrete")])
def test_rewards_that_count_states_refuse_spaces_without_states(name, kind):
    with pytest.raises(UnsupportedSpaceError, match="Discrete"):
        mmrs.make(name, OBSERVATIONS[kind], ACTIONS["discrete"])


def test_every_registered_reward_is_under_contract():
    assert set(REWARDS) <= set(FACTORIES)
    for name in FACTORIES:
        bonus, _ = both(name)
        assert bonus.causal == (name in CAUSAL), name


@EVERY
def test_terms_sum_to_the_reward(name):
    bonus, rollout = both(name, dummies=True)
    terms, _ = bonus.compute_terms(rollout)
    torch.testing.assert_close(sum(terms.values()), bonus.compute(rollout)[0], check_dtype=False)


# --- purity -----------------------------------------------------------------------------------------------------------


@EVERY_KIND
def test_compute_changes_nothing_and_gives_the_same_again(name, kind):
    bonus, rollout = both(name, kind, dummies=True)
    bonus.update(rollout)
    _, memory = bonus.compute(rollout)
    before, remembered, seen = frozen(bonus.state_dict()), frozen(memory), parts(rollout)
    rng = torch.get_rng_state()
    first, after_first = bonus.compute(rollout, memory)
    bonus.train()
    second, after_second = bonus.compute(rollout, memory)
    assert_same(first, second)
    assert_same(after_first, after_second)
    assert_same(memory, remembered)
    assert_same(bonus.state_dict(), before)
    assert_same(parts(rollout), seen)
    assert torch.equal(torch.get_rng_state(), rng)


@EVERY
def test_making_and_updating_leave_the_global_random_state_alone(name):
    torch_rng, numpy_rng = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    bonus, rollout = both(name, "image_hwc")
    bonus.update(rollout)
    assert torch.equal(torch.get_rng_state(), torch_rng)
    assert np.array_equal(np.random.get_state()[1], numpy_rng)  # noqa: NPY002


@EVERY
def test_the_global_random_state_does_not_reach_a_reward(name):
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        bonus, rollout = both(name)
        bonus.update(rollout)
        results.append((bonus.compute(rollout)[0], frozen(bonus.state_dict())))
    assert_same(*results)


@pytest.mark.parametrize("name", sorted(set(LEARNING) | {"re3"}))
def test_seeds_matter(name):
    rewards = []
    for seed in (1, 2):
        bonus, rollout = both(name, seed=seed, steps=8)
        bonus.update(rollout)
        rewards.append(bonus.compute(rollout)[0])
    assert not torch.equal(*rewards)


@EVERY
def test_a_rollout_computed_in_inference_mode_can_still_be_learned_from(name):
    bonus, rollout = both(name, "image_hwc")
    with torch.inference_mode():
        bonus.compute(rollout)
    bonus.update(rollout)


# --- cutting a rollout ------------------------------------------------------------------------------------------------


def chunked(bonus, pieces):
    memory, rewards = None, []
    for piece in pieces:
        reward, memory = bonus.compute(piece, memory)
        rewards.append(reward)
    return torch.cat(rewards), memory


@pytest.mark.parametrize("name", CAUSAL)
@given(data=st.data())
def test_step_by_step_and_any_chunks_equal_batched(name, data):
    steps, envs = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
    borders = data.draw(st.lists(st.integers(0, steps), max_size=3))
    how = {"end": data.draw(st.sampled_from([0.0, 0.2, 1.0])), "dummies": data.draw(st.booleans())}
    bonus, rollout = both(name, steps=steps, envs=envs, seed=data.draw(st.integers(0, 99)), **how)
    whole = chunked(bonus, [rollout])
    close = name not in EXACT
    assert_same(chunked(bonus, cut(rollout, borders)), whole, close=close)
    assert_same(chunked(bonus, cut(rollout, list(range(steps)))), whole, close=close)


@pytest.mark.parametrize("name", [n for n in CAUSAL if fits(n, "image_hwc")])
def test_step_by_step_equals_batched_on_images_after_learning(name):
    bonus, rollout = both(name, "image_hwc", steps=7, dummies=True)
    bonus.update(rollout)
    assert_same(chunked(bonus, cut(rollout, list(range(7)))), chunked(bonus, [rollout]), close=True)


@pytest.mark.parametrize("name", ["jfi", "ride", "count_bonus"])
def test_an_episode_goes_on_across_rollouts(name):
    bonus, rollout = both(name, "discrete", steps=8, envs=2, end=0.0)
    first, second = cut(rollout, [4])
    _, memory = bonus.compute(first)
    assert not torch.equal(bonus.compute(second, memory)[0], bonus.compute(second)[0])


# --- isolation --------------------------------------------------------------------------------------------------------

PER_ENV = [n for n in FACTORIES if not n.startswith(("scaled", "mmrs"))] + ["mmrs_isolated", "mmrs_paper"]
PER_EPISODE = sorted((set(PER_ENV) & set(CAUSAL) - {"jfi_lifelong"}) | {"re3_episode"})


def isolated(name, kind):
    """As `both`, with MMRS where no statistic is shared by design."""
    if name == "mmrs_isolated":
        options = {"clustering": "env", "scale_global": False, "lambda_l": 0.1}
        return FACTORIES["mmrs"](OBSERVATIONS[kind], **options), make_rollout(OBSERVATIONS[kind], steps=8)
    return both(name, kind, steps=8)


def with_states(rollout, where_obs, where_final, seed=9):
    """The rollout with other states where the masks are True; flags, actions and shapes stay."""
    fields, rng = parts(rollout), np.random.default_rng(seed)
    fields["obs"][where_obs] = fields["obs"][where_obs][torch.from_numpy(rng.permutation(int(where_obs.sum())))]
    fields["final_obs"][where_final] = fields["obs"][where_obs][: int(where_final.sum())]
    return mmrs.Rollout(**fields)


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in PER_ENV for k in KINDS if fits(n, k)])
def test_other_states_in_one_environment_leave_the_others_bit_equal(name, kind):
    bonus, rollout = isolated(name, kind)
    bonus.update(rollout)
    where = torch.zeros(9, 3, dtype=torch.bool)
    where[:, 1] = True
    other = with_states(rollout, where, rollout.done.nonzero()[:, 1] == 1)
    (a, memory_a), (b, memory_b) = bonus.compute(rollout), bonus.compute(other)
    assert torch.equal(a[:, [0, 2]], b[:, [0, 2]])
    assert not torch.equal(a[:, 1], b[:, 1])
    if not name.startswith("sum"):
        for key, value in memory_a.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value[[0, 2]], memory_b[key][[0, 2]])


@pytest.mark.parametrize("name", PER_EPISODE)
def test_other_states_in_one_episode_leave_the_others_bit_equal(name):
    kind = observed_by(name, "vector")
    marks = (np.zeros((9, 2), bool), np.zeros((9, 2), bool), np.ones((9, 2), bool))
    marks[0][[2, 6], 0] = True  # three episodes in environment 0: steps 0-2, 3-6 and 7-8
    rollout = make_rollout(OBSERVATIONS[kind], steps=9, envs=2, marks=marks)
    bonus = FACTORIES[name](OBSERVATIONS[kind])
    bonus.update(rollout)
    where = torch.zeros(10, 2, dtype=torch.bool)
    where[3:7, 0] = True
    other = with_states(rollout, where, torch.tensor([False, True]))
    (a, memory_a), (b, memory_b) = bonus.compute(rollout), bonus.compute(other)
    assert torch.equal(a[:3], b[:3])
    assert torch.equal(a[7:], b[7:])
    assert torch.equal(a[:, 1], b[:, 1])
    assert not torch.equal(a[3:7, 0], b[3:7, 0])
    assert_same(memory_a, memory_b)


# --- steps that are not valid -----------------------------------------------------------------------------------------


@EVERY_KIND
def test_contents_of_invalid_steps_change_nothing(name, kind):
    space = OBSERVATIONS[kind]
    rollout = make_rollout(space, steps=8, envs=3, dummies=True, seed=3)
    other, fields = parts(make_rollout(space, steps=8, envs=3, seed=4)), parts(rollout)
    invalid = ~rollout.valid
    unseen = ~rollout.visited[: 9 * 3].view(9, 3)
    assert invalid.any()
    assert unseen.any()
    fields["obs"][unseen] = other["obs"][unseen]
    for field in ("actions", "terminated", "truncated"):
        fields[field][invalid] = other[field][invalid]
    fields["terminated"] |= invalid
    twin = mmrs.Rollout(**fields)
    results = []
    for seen in (rollout, twin):
        bonus, memory, outcome = FACTORIES[name](space), None, []
        for _ in range(2):
            reward, memory = bonus.compute(seen, memory)
            assert (reward[invalid] == 0).all()
            outcome += [reward, frozen(memory), bonus.update(seen)]
        results.append((outcome, frozen(bonus.state_dict())))
    assert_same(*results)


@EVERY
def test_a_rollout_without_a_valid_step_has_no_bonus_and_trains_nothing(name):
    none = np.zeros((2, 2), bool)
    bonus, rollout = both(name, steps=2, envs=2, marks=(none, none, none))
    before = frozen(bonus.state_dict())
    reward, memory = bonus.compute(rollout)
    assert torch.equal(reward, torch.zeros(2, 2, dtype=reward.dtype))
    assert bonus.update(rollout) == {}
    assert_same(bonus.state_dict(), before)
    _, usual = both(name, steps=2, envs=2, end=0.5)
    assert_same(bonus.compute(usual, memory)[0], bonus.compute(usual)[0], close=True)


@EVERY
def test_an_environment_without_a_valid_step_does_not_disturb_the_others(name):
    marks = (np.zeros((4, 3), bool), np.zeros((4, 3), bool), np.ones((4, 3), bool))
    marks[2][:, 1] = False
    bonus, rollout = both(name, steps=4, envs=3, marks=marks)
    bonus.update(rollout)
    reward, _ = bonus.compute(rollout)
    assert reward.isfinite().all()
    assert (reward[:, 1] == 0).all()


# --- state ------------------------------------------------------------------------------------------------------------


def rounds(bonus, rollout, memory, count=3):
    outcome = []
    for _ in range(count):
        reward, memory = bonus.compute(rollout, memory)
        outcome += [reward, bonus.update(rollout)]
    return outcome, memory, frozen(bonus.state_dict())


@EVERY_KIND
def test_state_saved_to_a_file_continues_bit_for_bit_in_a_fresh_module(name, kind, tmp_path):
    bonus, rollout = both(name, kind)
    _, memory, _ = rounds(bonus, rollout, None, 2)
    torch.save({"bonus": bonus.state_dict(), "memory": memory}, tmp_path / "bonus.pt")
    expected = rounds(bonus, rollout, memory)
    fresh, _ = both(name, kind, seed=77)
    saved = torch.load(tmp_path / "bonus.pt", weights_only=True)
    fresh.load_state_dict(saved["bonus"])
    assert_same(rounds(fresh, rollout, saved["memory"]), expected)


@EVERY
def test_a_loaded_state_is_no_alias_of_the_module_it_came_from(name):
    bonus, rollout = both(name)
    bonus.update(rollout)
    twin, _ = both(name, seed=5)
    twin.load_state_dict(bonus.state_dict())
    before = frozen(bonus.state_dict())
    twin.update(rollout)
    assert_same(bonus.state_dict(), before)
    bonus.update(rollout)
    assert_same(bonus.state_dict(), twin.state_dict())


@EVERY
def test_rewards_can_be_pickled_and_go_on_alike(name):
    bonus, rollout = both(name)
    bonus.update(rollout)
    twin = pickle.loads(pickle.dumps(bonus))
    assert_same(rounds(twin, rollout, None), rounds(bonus, rollout, None))


# --- learning ---------------------------------------------------------------------------------------------------------


def own_loss(bonus, metrics):
    """The loss that the gradient steps minimized, from the metrics."""
    inner = getattr(bonus, "reward", bonus)
    if isinstance(inner, MMRS):
        config, size = inner.config, inner.observation_spec.size
        weight = 1 / (size * config.batch_size) if config.author_loss else 0.5 / config.decoder_variance
        return metrics["vae_kl"] + weight * size * metrics["vae_error"]
    return sum(v for k, v in metrics.items() if k.endswith("loss"))


TRAINED = [n for n in LEARNING if n != "landmarks"]  # its random encoder has no loss


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in TRAINED for k in KINDS if fits(n, k)])
def test_update_lowers_its_own_loss(name, kind):
    bonus, rollout = both(name, kind, steps=4, envs=4)
    fields = parts(rollout)
    fields["actions"][:] = (rollout.obs[:-1].flatten(2).sum(-1) if rollout.obs.ndim > 2 else rollout.obs[:-1]) % 4
    if kind == "image_hwc":  # noise cannot be compressed; gray levels can
        fields["obs"][:] = fields["obs"][:, :, :1, :1].clone()
        fields["final_obs"][:] = fields["final_obs"][:, :1, :1].clone()
    rollout = mmrs.Rollout(**fields)
    losses = [own_loss(bonus, bonus.update(rollout)) for _ in range(12 if kind == "image_hwc" else 24)]
    assert sum(losses[-3:]) < 0.97 * sum(losses[:3]), losses


# --- shapes at the edge -----------------------------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("ended", [False, True])
def test_single_sample_and_constant_batches_stay_finite(name, kind, ended):
    space = OBSERVATIONS[kind]
    for steps, envs in ((1, 1), (1, 3), (5, 1), (5, 3)):
        bonus, fields = FACTORIES[name](space), parts(make_rollout(space, steps=steps, envs=envs, end=1.0 * ended))
        fields["obs"][:] = fields["obs"][0, 0].clone()
        fields["final_obs"][:] = fields["obs"][0, 0]
        rollout, memory = mmrs.Rollout(**fields), None
        for _ in range(3):
            reward, memory = bonus.compute(rollout, memory)
            assert reward.isfinite().all()
            assert reward.abs().max() < 1e3
            bonus.update(rollout)
        state = [v for v in bonus.state_dict().values() if isinstance(v, torch.Tensor) and v.is_floating_point()]
        assert all(v.isfinite().all() for v in state)


@EVERY
@given(data=st.data())
def test_any_shape_and_any_ends(name, data):
    steps, envs = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 4))
    ends = np.zeros((steps, envs), bool)
    pattern = data.draw(st.sampled_from(["never", "first", "last", "both", "always", "random"]))
    ends[0] |= pattern in ("first", "both")
    ends[-1] |= pattern in ("last", "both")
    ends |= pattern == "always"
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    if pattern == "random":
        ends |= rng.random(ends.shape) < 0.5
    cut_off = rng.random(ends.shape) < 0.5
    marks = (ends & cut_off, ends & ~cut_off, rng.random(ends.shape) < data.draw(st.sampled_from([1.0, 0.7])))
    bonus, rollout = both(name, steps=steps, envs=envs, marks=marks)
    reward, memory = bonus.compute(rollout)
    bonus.update(rollout)
    reward_again, _ = bonus.compute(rollout, memory)
    for r in (reward, reward_again):
        assert r.shape == (steps, envs)
        assert r.isfinite().all()
        assert (r[~rollout.valid] == 0).all()


def test_no_warning_is_needed_to_use_a_reward():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in FACTORIES:
            bonus, rollout = both(name)
            bonus.compute(rollout)
            bonus.update(rollout)
