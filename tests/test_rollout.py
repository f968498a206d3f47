"""`Rollout`: validation, true successors, each state once, segments."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rollouts import OBSERVATIONS, make_rollout, parts

import mmrs
from mmrs.errors import InputError


def fields(steps=3, envs=2, ended=1):
    done = np.zeros((steps, envs), bool)
    done.flat[:ended] = True
    return {
        "obs": np.arange((steps + 1) * envs * 4, dtype=np.float32).reshape(steps + 1, envs, 4),
        "actions": np.zeros((steps, envs), np.int64),
        "terminated": done,
        "truncated": np.zeros((steps, envs), bool),
        "final_obs": -np.ones((ended, 4), np.float32),
    }


# --- validation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named", "found", "expected"),
    [
        ({"obs": np.zeros(3)}, "obs", r"\(3,\)", "T\\+1, N"),
        ({"obs": np.zeros((1, 2, 4))}, "obs", r"\(1, 2, 4\)", "at least one step"),
        ({"obs": np.zeros((4, 0, 4))}, "obs", r"\(4, 0, 4\)", "one environment"),
        ({"actions": np.zeros((4, 2))}, "actions", r"\(4, 2\)", r"\[3, 2\]"),
        ({"actions": np.zeros(3)}, "actions", r"\(3,\)", r"\[3, 2\]"),
        ({"terminated": np.zeros((3, 3), bool)}, "terminated", r"\(3, 3\)", r"\[3, 2\]"),
        ({"truncated": np.zeros((4, 2), bool)}, "truncated", r"\(4, 2\)", r"\[3, 2\]"),
        ({"valid": np.ones((3, 1), bool)}, "valid", r"\(3, 1\)", r"\[3, 2\]"),
        ({"terminated": np.zeros((3, 2))}, "terminated", "float64", "bool"),
        ({"truncated": np.zeros((3, 2), np.int64)}, "truncated", "int64", "bool"),
        ({"valid": np.ones((3, 2), np.uint8)}, "valid", "uint8", "bool"),
        ({"final_obs": None}, "final_obs", r"\(0, 4\)", r"\[1, 4\]"),
        ({"final_obs": np.zeros((2, 4), np.float32)}, "final_obs", r"\(2, 4\)", r"\[1, 4\]"),
        ({"final_obs": np.zeros((1, 5), np.float32)}, "final_obs", r"\(1, 5\)", r"\[1, 4\]"),
        ({"final_obs": np.zeros((1, 4))}, "final_obs", "float64", "float32"),
        ({"obs": [[[0.0], [1.0, 2.0]]] * 4}, "obs", "ragged", "dense"),
        ({"actions": np.full((3, 2), None)}, "actions", "object", "dense"),
        ({"actions": np.full((3, 2), "left")}, "actions", "<U4", "integers or floats"),
    ],
)
def test_errors_name_the_field_what_was_found_and_what_was_expected(change, named, found, expected):
    with pytest.raises(InputError) as caught:
        mmrs.Rollout(**fields() | change)
    assert str(caught.value).startswith(named)
    caught.match(found)
    caught.match(expected)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("field", ["obs", "final_obs", "actions"])
def test_values_that_are_not_finite_are_refused_with_their_index(field, wrong):
    given_fields = fields() | {"actions": np.zeros((3, 2, 2), np.float32)}
    given_fields[field][0, 1] = wrong
    with pytest.raises(InputError, match=rf"{field} holds -?(nan|inf) at index \(0, 1"):
        mmrs.Rollout(**given_fields)


def test_finite_values_whose_sum_overflows_are_accepted():
    mmrs.Rollout(**fields() | {"obs": np.full((4, 2, 4), 3e38, np.float32)})


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::-1],
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        np.asfortranarray,
        lambda a: np.broadcast_to(a[:1], a.shape),
    ],
)
def test_unusual_arrays_are_read_right(view):
    obs = view(fields()["obs"])
    assert torch.equal(mmrs.Rollout(**fields() | {"obs": obs}).obs, torch.tensor(obs.astype(np.float32).tolist()))


def test_bytes_stay_bytes_without_a_copy():
    obs = np.zeros((3, 1, 36, 36), np.uint8)
    flags = np.zeros((2, 1), bool)
    rollout = mmrs.Rollout(obs=obs, actions=np.zeros((2, 1)), terminated=flags, truncated=flags)
    assert rollout.obs.dtype == torch.uint8
    assert rollout.obs.data_ptr() == obs.ctypes.data


def test_there_is_no_field_for_the_extrinsic_reward():
    with pytest.raises(TypeError):
        mmrs.Rollout(**fields(), reward=np.zeros((3, 2)))
    with pytest.raises(AttributeError):
        mmrs.Rollout(**fields()).obs = None


def test_moving_to_the_same_device_is_the_same_rollout():
    rollout = mmrs.Rollout(**fields())
    assert rollout.to("cpu") is rollout


# --- transitions ------------------------------------------------------------------------------------------------------

SHAPES = {"steps": st.integers(1, 8), "envs": st.integers(1, 4), "seed": st.integers(0, 999)}


@given(**SHAPES, end=st.sampled_from([0.0, 0.3, 1.0]), dummies=st.booleans())
def test_map_pairs_runs_f_once_on_each_state_and_gives_true_successors(steps, envs, seed, end, dummies):
    rollout = make_rollout(OBSERVATIONS["vector"], steps=steps, envs=envs, seed=seed, end=end, dummies=dummies)
    rows = []

    def f(states):
        rows.append(len(states))
        return 2 * states

    before, after = rollout.map_pairs(f)
    assert rows == [(steps + 1) * envs + len(rollout.final_obs)]
    final = iter(rollout.final_obs)
    for t in range(steps):
        for e in range(envs):
            ended = rollout.valid[t, e] and (rollout.terminated[t, e] or rollout.truncated[t, e])
            successor = next(final) if ended else rollout.obs[t + 1, e]
            assert torch.equal(before[t, e], 2 * rollout.obs[t, e])
            assert torch.equal(after[t, e], 2 * successor)


def walk(rollout, starts_episode=None):
    """Visits of each environment by plain loops: lists of episodes, each a list of state indices."""
    steps, envs = rollout.valid.shape
    histories = []
    for e in range(envs):
        episodes, running = [], bool(starts_episode is not None and not starts_episode[e])
        if running:
            episodes.append([])
        for t in range(steps):
            if not rollout.valid[t, e]:
                running = False
                continue
            if not running:
                episodes.append([int(rollout.state_index[t, e])])
            episodes[-1].append(int(rollout.next_state_index[t, e]))
            running = not bool(rollout.done[t, e])
        histories.append([episode for episode in episodes if episode])
    return histories


@given(**SHAPES, end=st.sampled_from([0.0, 0.3, 1.0]), keep=st.sampled_from([1.0, 0.7, 0.2]))
def test_segments_are_the_visits_in_order(steps, envs, seed, end, keep):
    rng = np.random.default_rng(seed)
    ends = rng.random((steps, envs)) < end
    marks = (ends, np.zeros_like(ends), rng.random((steps, envs)) < keep)
    rollout = make_rollout(OBSERVATIONS["discrete"], steps=steps, envs=envs, seed=seed, marks=marks)
    histories = walk(rollout)
    expected = {
        "episode": [episode for history in histories for episode in history],
        "rollout": [list(chain(*history)) for history in histories if history],
    }
    for by, rows in expected.items():
        segments = rollout.segments(by)
        found = [i[m].tolist() for i, m in zip(segments.index, segments.mask, strict=True)]
        assert [row for row in found if row] == rows
        assert segments.index.shape[1] == max(1, max((len(row) for row in rows), default=0))
        flat = segments.index.flatten()
        valid = rollout.valid
        assert torch.equal(flat[segments.state_index][valid], rollout.state_index[valid])
        assert torch.equal(flat[segments.next_state_index][valid], rollout.next_state_index[valid])
        assert segments.mask.flatten()[segments.next_state_index][valid].all()
        assert segments.mask.flatten()[segments.state_index][valid].all()


@given(**SHAPES, dummies=st.booleans())
def test_visited_states_are_those_of_valid_transitions(steps, envs, seed, dummies):
    rollout = make_rollout(OBSERVATIONS["discrete"], steps=steps, envs=envs, seed=seed, dummies=dummies)
    expected = {i for history in walk(rollout) for episode in history for i in episode}
    assert set(rollout.visited.nonzero().flatten().tolist()) == expected


@given(**SHAPES, dummies=st.booleans())
def test_episodes_carried_over_do_not_start_here(steps, envs, seed, dummies):
    rollout = make_rollout(OBSERVATIONS["discrete"], steps=steps, envs=envs, seed=seed, dummies=dummies)
    starts_episode = torch.from_numpy(np.random.default_rng(seed).random(envs) < 0.5)
    slots = rollout.visit_slots(starts_episode)
    for e, history in enumerate(walk(rollout, starts_episode)):
        assert slots.index[e][slots.counted[e]].tolist() == list(chain(*history))
        sizes = torch.unique_consecutive(slots.episode[e][slots.counted[e]], return_counts=True)[1]
        assert sizes.tolist() == [len(episode) for episode in history]


def test_segments_of_an_unknown_kind():
    with pytest.raises(InputError, match=r"'life'.*'rollout' or 'episode'"):
        make_rollout(OBSERVATIONS["discrete"]).segments("life")


def test_a_flag_on_an_invalid_step_ends_no_episode():
    given_fields = parts(make_rollout(OBSERVATIONS["discrete"], end=0.0))
    given_fields["terminated"][2, 1] = True
    given_fields["valid"][2, 1] = False
    assert not mmrs.Rollout(**given_fields).done.any()
