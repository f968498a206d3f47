"""GAE and linear recurrences against loops and closed forms."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmrs.functional.returns import gae, linear_recurrence


def naive_gae(reward, value, next_value, terminated, truncated, valid, gamma, lam):
    out = np.zeros_like(reward)
    for e in range(reward.shape[1]):
        trace = 0.0
        for t in reversed(range(reward.shape[0])):
            if not valid[t, e]:
                trace = 0.0
                continue
            if terminated[t, e] or truncated[t, e]:
                trace = 0.0
            bootstrap = 0.0 if terminated[t, e] else next_value[t, e]
            trace = reward[t, e] + gamma * bootstrap - value[t, e] + gamma * lam * trace
            out[t, e] = trace
    return out


UNIT = st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0])


@given(steps=st.integers(1, 20), envs=st.integers(1, 4), gamma=UNIT, lam=UNIT, seed=st.integers(0, 999))
def test_gae_is_the_loop_with_terminations_truncations_and_dummy_steps(steps, envs, gamma, lam, seed):
    rng = np.random.default_rng(seed)
    reward, value, next_value = rng.standard_normal((3, steps, envs))
    terminated, truncated = rng.random((2, steps, envs)) < 0.2
    valid = rng.random((steps, envs)) < 0.8
    reward[~valid], next_value[~valid] = np.nan, np.inf  # a dummy step may hold anything
    tensors = [torch.from_numpy(a) for a in (reward, value, next_value, terminated, truncated)]
    found = gae(*tensors, gamma=gamma, lam=lam, valid=torch.from_numpy(valid))
    expected = naive_gae(reward, value, next_value, terminated, truncated, valid, gamma, lam)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("gamma", "lam"), [(0.9, 0.8), (1.0, 1.0), (0.99, 0.0)])
def test_gae_of_a_constant_reward_is_a_geometric_sum(gamma, lam):
    steps, none = 50, torch.zeros(50, 1, dtype=torch.bool)
    zero = torch.zeros(50, 1, dtype=torch.float64)
    found = gae(torch.full_like(zero, 0.3), zero, zero, none, none, gamma=gamma, lam=lam).squeeze(1)
    left = torch.arange(steps, 0, -1, dtype=torch.float64)
    rate = gamma * lam
    torch.testing.assert_close(found, 0.3 * (left if rate == 1 else (1 - rate**left) / (1 - rate)))


def test_with_lambda_one_and_true_values_the_advantage_is_the_return_less_the_value():
    generator = torch.Generator().manual_seed(0)
    reward, value = torch.randn(2, 30, 2, generator=generator, dtype=torch.float64)
    next_value = torch.cat([value[1:], torch.zeros(1, 2)])
    terminated = torch.zeros(30, 2, dtype=torch.bool)
    terminated[-1] = True
    found = gae(reward, value, next_value, terminated, torch.zeros_like(terminated), gamma=0.97, lam=1.0)
    returns = linear_recurrence(reward.flip(0), 0.97, torch.zeros(2)).flip(0)
    torch.testing.assert_close(found, returns - value)


def test_gae_keeps_the_dtype_of_its_inputs():
    zero, none = torch.zeros(3, 1), torch.zeros(3, 1, dtype=torch.bool)
    assert gae(zero, zero, zero, none, none, gamma=0.9, lam=0.9).dtype == torch.float32


def naive_recurrence(x, decay, initial, restart):
    out, y = [], initial
    for t in range(len(x)):
        y = x[t] + decay * np.where(restart[t], 0.0, y)
        out.append(y)
    return np.stack(out)


@given(
    steps=st.sampled_from([1, 2, 7, 127, 128, 129, 300]),
    envs=st.sampled_from([1, 3]),
    decay=UNIT,
    restarts=st.sampled_from([None, 0.0, 0.1, 1.0]),
    border=st.integers(0, 300),
)
def test_recurrence_is_the_loop_and_can_be_cut_anywhere(steps, envs, decay, restarts, border):
    rng = np.random.default_rng(steps + border)
    x, initial = rng.standard_normal((steps, envs)), rng.standard_normal(envs)
    restart = np.zeros((steps, envs), bool) if restarts is None else rng.random((steps, envs)) < restarts
    again = None if restarts is None else torch.from_numpy(restart)
    found = linear_recurrence(torch.from_numpy(x), decay, torch.from_numpy(initial), again)
    np.testing.assert_allclose(found, naive_recurrence(x, decay, initial, restart), rtol=1e-9, atol=1e-9)
    if 0 < (b := border % steps) < steps:
        early, late = (None, None) if again is None else (again[:b], again[b:])
        first = linear_recurrence(torch.from_numpy(x[:b]), decay, torch.from_numpy(initial), early)
        rest = linear_recurrence(torch.from_numpy(x[b:]), decay, first[-1], late)
        np.testing.assert_allclose(torch.cat([first, rest]), found, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("steps", "envs"), [(5000, 2), (40, 3000)])
def test_recurrence_of_long_and_wide_inputs(steps, envs):
    rng = np.random.default_rng(0)
    x, restart = rng.standard_normal((steps, envs)), rng.random((steps, envs)) < 0.01
    found = linear_recurrence(torch.from_numpy(x), 0.999, torch.zeros(envs), torch.from_numpy(restart))
    np.testing.assert_allclose(found, naive_recurrence(x, 0.999, np.zeros(envs), restart), rtol=1e-8, atol=1e-8)
