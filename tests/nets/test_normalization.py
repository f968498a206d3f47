"""What of an observation the agent controls: the weights by hand."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import mmrs
from mmrs.nets.normalization import DOUBT, ControlNorm
from mmrs.spaces import observation_spec

FOUR = observation_spec(spaces.Box(-np.inf, np.inf, (4,), np.float32))
CIRCUMSTANCES = torch.tensor([0, 0, 1, 1, 2])
# Follows from the circumstance; noise; half and half; never changes. The last row's circumstance was seen once.
CHANGES = torch.tensor([[1.0, 3, 1, 0], [1, -3, 3, 0], [-1, 3, 1, 0], [-1, -3, 3, 0], [9, 9, 9, 9]])


def taught(times=1, momentum=1.0):
    norm = ControlNorm(FOUR, 20.0, momentum=momentum)
    for _ in range(times):
        norm.attribute(torch.zeros_like(CHANGES), CHANGES, CIRCUMSTANCES)
    return norm


def test_weights_by_hand():
    """Var(Δ given the circumstance): 0, 18 and 2 (unbiased, of two samples); E[Δ²]: 1, 9 and 5; four changes each."""
    doubt = 4 / (4 + DOUBT)
    expected = [1.0, 1 - 18 / 9 * doubt, 1 - 2 / 5 * doubt, 1.0]
    assert taught().weight().tolist() == pytest.approx(expected)
    assert taught(10_000).weight().tolist() == pytest.approx([1.0, 0.0, 0.6, 1.0], abs=2e-3)


def test_old_changes_fade():
    norm = taught(momentum=0.5)
    nothing = torch.zeros_like(CHANGES)
    norm.attribute(nothing, nothing, CIRCUMSTANCES)
    assert norm.changes.tolist() == [2, 2, 2, 0]
    assert norm.total.tolist() == [2, 18, 10, 0]


def test_standardised_features_are_weighed():
    norm = taught(100)
    norm.observe(torch.tensor([[0.0, 0, 0, 0], [2.0, 2, 2, 2]]))
    torch.testing.assert_close(norm(torch.full((1, 4), 3.0)), 2 * norm.weight().float().unsqueeze(0))


def test_images_are_weighed_pixel_by_pixel():
    norm = ControlNorm(observation_spec(spaces.Box(0, 255, (36, 40, 1), np.uint8)), 20.0)
    after = torch.zeros(4, 36, 40, 1, dtype=torch.uint8)
    after[:, 3, 5] = 9  # follows
    after[::2, 7, 2] = 9  # does not
    for _ in range(1000):
        norm.attribute(torch.zeros_like(after), after, torch.zeros(4, dtype=torch.int64))
    weight = norm.weight()
    assert weight.shape == (1, 36, 40)
    assert weight[0, 3, 5] == 1
    # Variance 27, mean square 81/2; two changes an update come to 200 where old ones fade, two thirds of them believed.
    assert weight[0, 7, 2] == pytest.approx(1 - (27 / 40.5) * 200 / (200 + DOUBT), abs=1e-3)
    assert (weight == 1).sum() == 36 * 40 - 1


def test_mmrs_learns_to_overlook_what_an_action_redraws():
    """Two numbers: a place, which actions 0 and 1 move by one, and noise, which action 2 redraws."""
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    bonus = mmrs.make("mmrs", space, spaces.Discrete(3), k=12, latent_dim=4, control=True)
    rng, never = np.random.default_rng(0), np.zeros((64, 4), bool)
    for _ in range(20):
        actions, obs = rng.integers(0, 3, (64, 4)), np.zeros((65, 4, 2), np.float32)
        for t, action in enumerate(actions):
            obs[t + 1, :, 0] = np.clip(obs[t, :, 0] + np.where(action == 2, 0, 2 * action - 1), -3, 3)
            obs[t + 1, :, 1] = np.where(action == 2, 20 * rng.standard_normal(4), obs[t, :, 1])
        bonus.update(mmrs.Rollout(obs=obs, actions=actions, terminated=never, truncated=never))
    place, noise = bonus.norm.weight().tolist()
    assert place > 0.9
    assert noise < 0.5
    x = bonus._inputs(torch.tensor([[1.0, 1.0]]))
    torch.testing.assert_close(x, bonus.norm.weight().float().unsqueeze(0))
