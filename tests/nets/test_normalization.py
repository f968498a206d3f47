"""Weights of `ControllabilityNorm`, computed by hand."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import mmrs
from mmrs.nets.normalization import PRIOR_COUNT, ControllabilityNorm
from mmrs.spaces import observation_spec

FOUR = observation_spec(spaces.Box(-np.inf, np.inf, (4,), np.float32))
CONDITIONS = torch.tensor([0, 0, 1, 1, 2])
# Follows from the condition; noise; half and half; never changes. The condition of the last row occurs once.
CHANGES = torch.tensor([[1.0, 3, 1, 0], [1, -3, 3, 0], [-1, 3, 1, 0], [-1, -3, 3, 0], [9, 9, 9, 9]])


def trained(times=1, momentum=1.0):
    norm = ControllabilityNorm(FOUR, 20.0, momentum=momentum)
    for _ in range(times):
        norm.update_controllability(torch.zeros_like(CHANGES), CHANGES, CONDITIONS)
    return norm


def test_weights_by_hand():
    """Var(Δ given the condition): 0, 18 and 2 (unbiased, of two samples); E[Δ²]: 1, 9 and 5; four changes each."""
    trust = 4 / (4 + PRIOR_COUNT)
    expected = [1.0, 1 - 18 / 9 * trust, 1 - 2 / 5 * trust, 1.0]
    assert trained().weight().tolist() == pytest.approx(expected)
    assert trained(10_000).weight().tolist() == pytest.approx([1.0, 0.0, 0.6, 1.0], abs=2e-3)


def test_old_changes_decay():
    norm = trained(momentum=0.5)
    nothing = torch.zeros_like(CHANGES)
    norm.update_controllability(nothing, nothing, CONDITIONS)
    assert norm.changes.tolist() == [2, 2, 2, 0]
    assert norm.total.tolist() == [2, 18, 10, 0]


def test_standardized_features_are_weighted():
    norm = trained(100)
    norm.observe(torch.tensor([[0.0, 0, 0, 0], [2.0, 2, 2, 2]]))
    torch.testing.assert_close(norm(torch.full((1, 4), 3.0)), 2 * norm.weight().float().unsqueeze(0))


def test_images_are_weighted_pixel_by_pixel():
    norm = ControllabilityNorm(observation_spec(spaces.Box(0, 255, (36, 40, 1), np.uint8)), 20.0)
    after = torch.zeros(4, 36, 40, 1, dtype=torch.uint8)
    after[:, 3, 5] = 9  # follows
    after[::2, 7, 2] = 9  # does not
    for _ in range(1000):
        norm.update_controllability(torch.zeros_like(after), after, torch.zeros(4, dtype=torch.int64))
    weight = norm.weight()
    assert weight.shape == (1, 36, 40)
    assert weight[0, 3, 5] == 1
    # Variance 27, mean square 81/2; two changes per update sum to 200 with decay, so the estimate has weight 2/3.
    assert weight[0, 7, 2] == pytest.approx(1 - (27 / 40.5) * 200 / (200 + PRIOR_COUNT), abs=1e-3)
    assert (weight == 1).sum() == 36 * 40 - 1


def test_mmrs_learns_to_ignore_what_an_action_redraws():
    """Two components: a position, which actions 0 and 1 move by one, and noise, which action 2 redraws."""
    space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    bonus = mmrs.make("mmrs", space, spaces.Discrete(3), k=12, latent_dim=4, mask_uncontrollable=True)
    rng, never = np.random.default_rng(0), np.zeros((64, 4), bool)
    for _ in range(20):
        actions, obs = rng.integers(0, 3, (64, 4)), np.zeros((65, 4, 2), np.float32)
        for t, action in enumerate(actions):
            obs[t + 1, :, 0] = np.clip(obs[t, :, 0] + np.where(action == 2, 0, 2 * action - 1), -3, 3)
            obs[t + 1, :, 1] = np.where(action == 2, 20 * rng.standard_normal(4), obs[t, :, 1])
        bonus.update(mmrs.Rollout(obs=obs, actions=actions, terminated=never, truncated=never))
    position, noise = bonus.norm.weight().tolist()
    assert position > 0.9
    assert noise < 0.5
    x = bonus._inputs(torch.tensor([[1.0, 1.0]]))
    torch.testing.assert_close(x, bonus.norm.weight().float().unsqueeze(0))
