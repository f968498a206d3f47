"""Landmark fairness: a rollout worked out by hand, what it pays for a code, and counts that follow their landmarks."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tests.support.rollouts import MOVES, OBSERVATIONS, make_rollout

import mmrs
from mmrs.errors import InputError
from mmrs.rewards.landmarks import REMEMBERED_UPDATES

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
    bonus = mmrs.make("landmarks", LINE, MOVES, **{"latent_dim": 1, "apart": 0.0, "scale": "none", **options})
    first, _, last = bonus.embedding.network
    for parameter in bonus.embedding.parameters():
        parameter.zero_()
    first.weight[0, 0], first.weight[1, 0], last.weight[0, 0], last.weight[0, 1] = 1.0, -1.0, 1.0, -1.0
    return bonus


def taught():
    """K = 3 and a book of 0, 11 and 10 (in this order: the farthest first), each visited once."""
    bonus = on_the_line(k=3)
    bonus.update(walk([0, 10, 11, 0]))
    assert bonus.landmarks.flatten().tolist() == [0, 11, 10]
    assert bonus.mass.tolist() == [1, 1, 1]
    return bonus


def test_six_steps_with_a_merge_by_hand():
    """One episode 0 → 10 → 11 → 30 | 30 → 0 → 10, an update after the third step; m(c) = (Σc)²/Σc² of the counts c.

    Counts at the landmarks (0, 11, 10); each has a third of all visits, Σp² = 1/3, so the weight is 1/(1 + 1) = 1/2:

    - it starts at 0:        c = (1, 0, 0), m = 1
    - 10:                    c = (1, 0, 1), m = 2, paid (2 - 1)/2 = 1/2
    - 11:                    c = (1, 1, 1), m = 3, paid 1/2
    - 30, nearest to 11:     c = (1, 2, 1), m = 16/6, paid (8/3 - 3)/2 = -1/6

    The update sees 30, 361 (squared) from the book, while 11 and 10 are 1 apart. 10 is merged into 11 and 30 takes its
    place: landmarks (0, 11, 30), masses (1, 2, 0), and with the rollout's successors 10, 11, 30: (1, 4, 1). The
    episode's counts follow: c = (1, 2 + 1, 0), m = 16/10. Shares 1/6, 4/6, 1/6; Σp² = 1/2; weights 3/4, 3/7, 3/4:

    - 30:                    c = (1, 3, 1), m = 25/11, paid (25/11 - 8/5)·3/4
    - 0:                     c = (2, 3, 1), m = 36/14, paid (18/7 - 25/11)·3/4
    - 10, nearest to 11:     c = (2, 4, 1), m = 49/21, paid (7/3 - 18/7)·3/7
    """
    bonus = taught()
    first, memory = bonus.compute(walk([0, 10, 11, 30]))
    assert first.flatten().tolist() == pytest.approx([1 / 2, 1 / 2, -1 / 6])
    assert bonus.update(walk([0, 10, 11, 30])) == {"landmarks": 3, "landmark_merges": 1}
    assert bonus.landmarks.flatten().tolist() == [0, 11, 30]
    assert bonus.mass.tolist() == [1, 4, 1]
    second, memory = bonus.compute(walk([30, 30, 0, 10]), memory)
    by_hand = [(25 / 11 - 8 / 5) * 3 / 4, (18 / 7 - 25 / 11) * 3 / 4, (7 / 3 - 18 / 7) * 3 / 7]
    assert second.flatten().tolist() == pytest.approx(by_hand)
    assert memory["counts"].tolist() == [[2, 4, 1]]


@pytest.mark.parametrize(
    ("pay", "paid"),
    [
        ("fairness", [1, 1, 16 / 6 - 3]), ("clipped", [1, 1, 0]), ("count", [1, 1, 2**-0.5]),
        ("first", [1, 1, 0]), ("visit", [1, 1, 1]),
    ],
)  # fmt: skip
def test_what_is_paid_for_a_code(pay, paid):
    bonus = on_the_line(k=3, pay=pay, life="none")
    bonus.update(walk([0, 10, 11, 0]))
    reward, _ = bonus.compute(walk([0, 10, 11, 10]))
    assert reward.flatten().tolist() == pytest.approx(paid)


def test_weights_over_the_run():
    mass = {"share": [3 / 4, 3 / 7, 3 / 4], "count": [1, 1 / 2, 1], "none": [1, 1, 1]}
    for life, weights in mass.items():
        bonus = on_the_line(k=3, pay="visit", life=life)
        bonus.update(walk([0, 10, 10, 10, 10, 0, 20]))
        assert bonus.mass[bonus.landmarks.flatten().argsort()].tolist() == [1, 4, 1]
        assert bonus.compute(walk([20, 0, 10, 20]))[0].flatten().tolist() == pytest.approx(weights)


def test_a_reset_is_neither_paid_nor_differenced_across():
    bonus = taught()
    reward, memory = bonus.compute(walk([0, 10, 11, 10], done=[1], final=[0]))
    # 0 → 10, then → 0 which ends the episode: c = (2, 0, 1), m = 9/5. The next starts at 11 and pays only for 10.
    assert reward.flatten().tolist() == pytest.approx([0.5, (9 / 5 - 2) / 2, 0.5])
    assert memory["counts"].tolist() == [[0, 1, 1]]


def test_before_the_first_update_there_is_no_book_and_no_pay():
    reward, memory = on_the_line(k=3).compute(walk([0, 10, 11, 10]))
    assert (reward == 0).all()
    assert memory["counts"].sum() == 4


def test_states_much_nearer_than_a_step_are_the_same():
    bonus = on_the_line(k=3)
    bonus.update(walk([0, 10, 11, 20]))  # a step is 67 on average (squared)
    assert sorted(bonus.landmarks.flatten().tolist()) == [0, 10, 20]
    near = on_the_line(k=4, apart=0.05)
    near.update(walk([0, 10, 11, 20]))
    assert sorted(near.landmarks[near.taken].flatten().tolist()) == [0, 10, 20]
    # What was told apart while steps were short is merged when they are long, masses too.
    short = on_the_line(k=8, apart=0.05)
    short.update(walk([0, 1, 2, 3]))
    assert int(short.taken.sum()) == 4
    short.update(walk([3, 100, 3, 200]))
    assert sorted(short.landmarks[short.taken].flatten().tolist()) == [3, 100, 200]
    assert int(short.mass.sum()) == 6


def noisy_walk(seed):
    """Two numbers: a place, which actions 0 and 1 move by one, and noise, which action 2 redraws."""
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
    bonus = mmrs.make("landmarks", space, spaces.Discrete(3), k=12, scale="control")
    for seed in range(20):
        bonus.update(noisy_walk(seed))
    place, noise = bonus.embedding.norm.weight().tolist()
    assert place > 0.95
    assert noise < 0.4


@pytest.mark.parametrize("updates", [1, 3, REMEMBERED_UPDATES - 1, REMEMBERED_UPDATES])
def test_counts_of_an_episode_follow_their_landmarks_over_several_updates(updates):
    space = OBSERVATIONS["vector"]
    bonus = mmrs.make("landmarks", space, MOVES, k=8, merges=2)
    bonus.update(make_rollout(space, steps=20))
    _, memory = bonus.compute(make_rollout(space, steps=20, end=0.0))
    expected = memory["counts"].clone()
    for seed in range(updates):
        before = bonus.embedded.clone()
        bonus.update(make_rollout(space, steps=20, seed=seed))
        into = bonus.ways[1]
        expected = torch.zeros_like(expected).index_add_(1, into, expected)
        stayed = (bonus.embedded == before).all(1)
        assert (into[stayed] == torch.arange(8)[stayed]).all()
    dummy = np.zeros((1, 3), bool)
    _, now = bonus.compute(make_rollout(space, steps=1, marks=(dummy, dummy, dummy)), memory)
    assert torch.equal(now["counts"], expected if updates < REMEMBERED_UPDATES else torch.zeros_like(expected))


def test_landmarks_stay_bytes_and_are_embedded_anew_when_the_encoder_has_learned():
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
        ({"lambda_l": 0.1}, "vae"), ({"ratio": 0.0}, "ratio"), ({"apart": -1.0}, "apart"), ({"kk": 3}, "kk"),
        ({"pay": 1}, "pay"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(options, what):
    with pytest.raises(InputError, match=what):
        mmrs.make("landmarks", LINE, MOVES, **options)
