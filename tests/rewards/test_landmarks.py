"""Landmark fairness: a rollout by hand, the bonus options, and counts that follow merged landmarks."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tests.support.rollouts import MOVES, OBSERVATIONS, make_rollout

import mmrs
from mmrs.errors import InputError
from mmrs.rewards.landmarks import REMAPPED_UPDATES

LINE = spaces.Box(-np.inf, np.inf, (1,), np.float32)


def walk(points, done=(), final=()):
    """One environment on the line; `done` steps end at the points of `final`."""
    steps = len(points) - 1
    ends = np.zeros((steps, 1), bool)
    ends[list(done)] = True
    return mmrs.Rollout(
        obs=np.array(points, np.float32).reshape(-1, 1, 1),
        actions=np.zeros((steps, 1), int),
        terminated=ends,
        truncated=np.zeros_like(ends),
        final_obs=np.array(final, np.float32).reshape(-1, 1),
    )


def on_the_line(**options):
    """The reward with an encoder that returns its input: relu(x) - relu(-x) = x."""
    options = {"latent_dim": 1, "min_sq_dist": 0.0, "input_scale": "none", **options}
    bonus = mmrs.make("landmarks", LINE, MOVES, **options)
    first, _, last = bonus.embedding.network
    for parameter in bonus.embedding.parameters():
        parameter.zero_()
    first.weight[0, 0], first.weight[1, 0], last.weight[0, 0], last.weight[0, 1] = 1.0, -1.0, 1.0, -1.0
    return bonus


def trained():
    """K = 3 and the landmarks 0, 11 and 10 (in this order: the farthest first), each visited once."""
    bonus = on_the_line(k=3)
    bonus.update(walk([0, 10, 11, 0]))
    assert bonus.landmarks.flatten().tolist() == [0, 11, 10]
    assert bonus.visit_count.tolist() == [1, 1, 1]
    return bonus


def test_six_steps_with_a_merge_by_hand():
    """One episode 0 → 10 → 11 → 30 | 30 → 0 → 10, an update after the third step; m(c) = (Σc)²/Σc² of the counts c.

    Counts at the landmarks (0, 11, 10); each has a third of all visits, Σp² = 1/3, so the weight is 1/(1 + 1) = 1/2:

    - it starts at 0:        c = (1, 0, 0), m = 1
    - 10:                    c = (1, 0, 1), m = 2, bonus (2 - 1)/2 = 1/2
    - 11:                    c = (1, 1, 1), m = 3, bonus 1/2
    - 30, nearest to 11:     c = (1, 2, 1), m = 16/6, bonus (8/3 - 3)/2 = -1/6

    The update finds 30 at a squared distance of 361 from the nearest landmark, and 11 and 10 at 1 from each other. It
    merges 10 into 11, and 30 takes the slot: landmarks (0, 11, 30), visit counts (1, 2, 0), and with the successors 10,
    11, 30 of the rollout (1, 4, 1). The episode's counts follow: c = (1, 2 + 1, 0), m = 16/10. Shares 1/6, 4/6, 1/6;
    Σp² = 1/2; weights 3/4, 3/7, 3/4:

    - 30:                    c = (1, 3, 1), m = 25/11, bonus (25/11 - 8/5)·3/4
    - 0:                     c = (2, 3, 1), m = 36/14, bonus (18/7 - 25/11)·3/4
    - 10, nearest to 11:     c = (2, 4, 1), m = 49/21, bonus (7/3 - 18/7)·3/7
    """
    bonus = trained()
    first, memory = bonus.compute(walk([0, 10, 11, 30]))
    assert first.flatten().tolist() == pytest.approx([1 / 2, 1 / 2, -1 / 6])
    assert bonus.update(walk([0, 10, 11, 30])) == {"landmarks": 3, "landmark_merges": 1}
    assert bonus.landmarks.flatten().tolist() == [0, 11, 30]
    assert bonus.visit_count.tolist() == [1, 4, 1]
    second, memory = bonus.compute(walk([30, 30, 0, 10]), memory)
    by_hand = [(25 / 11 - 8 / 5) * 3 / 4, (18 / 7 - 25 / 11) * 3 / 4, (7 / 3 - 18 / 7) * 3 / 7]
    assert second.flatten().tolist() == pytest.approx(by_hand)
    assert memory["counts"].tolist() == [[2, 4, 1]]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("fairness", [1, 1, 16 / 6 - 3]), ("clipped", [1, 1, 0]), ("count", [1, 1, 2**-0.5]),
        ("first", [1, 1, 0]), ("visit", [1, 1, 1]),
    ],
)  # fmt: skip
def test_bonus_options(option, expected):
    bonus = on_the_line(k=3, bonus=option, lifelong_weight="none")
    bonus.update(walk([0, 10, 11, 0]))
    reward, _ = bonus.compute(walk([0, 10, 11, 10]))
    assert reward.flatten().tolist() == pytest.approx(expected)


def test_lifelong_weight_options():
    expected = {"share": [3 / 4, 3 / 7, 3 / 4], "count": [1, 1 / 2, 1], "none": [1, 1, 1]}
    for option, weights in expected.items():
        bonus = on_the_line(k=3, bonus="visit", lifelong_weight=option)
        bonus.update(walk([0, 10, 10, 10, 10, 0, 20]))
        assert bonus.visit_count[bonus.landmarks.flatten().argsort()].tolist() == [1, 4, 1]
        assert bonus.compute(walk([20, 0, 10, 20]))[0].flatten().tolist() == pytest.approx(weights)


def test_a_reset_has_no_bonus_and_no_difference_across_it():
    bonus = trained()
    reward, memory = bonus.compute(walk([0, 10, 11, 10], done=[1], final=[0]))
    # 0 → 10, then → 0 which ends the episode: c = (2, 0, 1), m = 9/5. The next starts at 11; its only step is to 10.
    assert reward.flatten().tolist() == pytest.approx([0.5, (9 / 5 - 2) / 2, 0.5])
    assert memory["counts"].tolist() == [[0, 1, 1]]


def test_before_the_first_update_there_is_no_landmark_and_no_bonus():
    reward, memory = on_the_line(k=3).compute(walk([0, 10, 11, 10]))
    assert (reward == 0).all()
    assert memory["counts"].sum() == 4


def test_states_much_nearer_than_a_step_are_the_same():
    bonus = on_the_line(k=3)
    bonus.update(walk([0, 10, 11, 20]))  # a step is 67 on average (squared)
    assert sorted(bonus.landmarks.flatten().tolist()) == [0, 10, 20]
    near = on_the_line(k=4, min_sq_dist=0.05)
    near.update(walk([0, 10, 11, 20]))
    assert sorted(near.landmarks[near.used].flatten().tolist()) == [0, 10, 20]
    # States that were distinct while steps were short are merged when steps are long, with their visit counts.
    short = on_the_line(k=8, min_sq_dist=0.05)
    short.update(walk([0, 1, 2, 3]))
    assert int(short.used.sum()) == 4
    short.update(walk([3, 100, 3, 200]))
    assert sorted(short.landmarks[short.used].flatten().tolist()) == [3, 100, 200]
    assert int(short.visit_count.sum()) == 6


def noisy_walk(seed):
    """Two features: a position, which actions 0 and 1 move by one, and noise, which action 2 redraws."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 3, (64, 4))
    obs = np.zeros((65, 4, 2), np.float32)
    for t in range(64):
        obs[t + 1, :, 0] = np.clip(obs[t, :, 0] + np.where(actions[t] == 2, 0, 2 * actions[t] - 1), -3, 3)
        obs[t + 1, :, 1] = np.where(actions[t] == 2, 20 * rng.standard_normal(4), obs[t, :, 1])
    never = np.zeros((64, 4), bool)
    return mmrs.Rollout(obs=obs, actions=actions, terminated=never, truncated=never)


def test_noise_that_an_action_redraws_weighs_little():
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    bonus = mmrs.make("landmarks", space, spaces.Discrete(3), k=12, input_scale="controllability")
    for seed in range(20):
        bonus.update(noisy_walk(seed))
    position, noise = bonus.embedding.norm.weight().tolist()
    assert position > 0.95
    assert noise < 0.4


@pytest.mark.parametrize("updates", [1, 3, REMAPPED_UPDATES - 1, REMAPPED_UPDATES])
def test_counts_of_an_episode_follow_their_landmarks_over_several_updates(updates):
    space = OBSERVATIONS["vector"]
    bonus = mmrs.make("landmarks", space, MOVES, k=8, max_merges=2)
    bonus.update(make_rollout(space, steps=20))
    _, memory = bonus.compute(make_rollout(space, steps=20, end=0.0))
    expected = memory["counts"].clone()
    for seed in range(updates):
        before = bonus.embedded.clone()
        bonus.update(make_rollout(space, steps=20, seed=seed))
        merged_into = bonus.remap[1]
        expected = torch.zeros_like(expected).index_add_(1, merged_into, expected)
        stayed = (bonus.embedded == before).all(1)
        assert (merged_into[stayed] == torch.arange(8)[stayed]).all()
    dummy = np.zeros((1, 3), bool)
    _, now = bonus.compute(make_rollout(space, steps=1, marks=(dummy, dummy, dummy)), memory)
    assert torch.equal(now["counts"], expected if updates < REMAPPED_UPDATES else torch.zeros_like(expected))


def test_landmarks_stay_bytes_and_are_embedded_again_after_the_encoder_learned():
    space = OBSERVATIONS["image_hwc"]
    bonus = mmrs.make("landmarks", space, MOVES, k=6, encoder="vae")
    for seed in range(3):
        bonus.update(make_rollout(space, seed=seed))
        assert bonus.landmarks.dtype == torch.uint8
        torch.testing.assert_close(bonus.embedding(bonus.landmarks), bonus.embedded)
    atari = mmrs.make("landmarks", OBSERVATIONS["image_atari"], MOVES)
    assert sum(b.untyped_storage().nbytes() for b in atari.buffers()) < 10e6


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"lambda_l": 0.1}, "vae"), ({"insert_ratio": 0.0}, "insert_ratio"), ({"min_sq_dist": -1.0}, "min_sq_dist"),
        ({"kk": 3}, "kk"), ({"bonus": 1}, "bonus"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(options, what):
    with pytest.raises(InputError, match=what):
        mmrs.make("landmarks", LINE, MOVES, **options)
