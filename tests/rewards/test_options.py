"""Options and inputs that must be refused, and legal ones that must not."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tests.support.rollouts import MOVES, OBSERVATIONS, make_rollout

import mmrs
from mmrs.errors import InputError, UnsupportedSpaceError
from mmrs.rewards.ride import QUERIES
from mmrs.spaces import observation_spec

VECTOR, DISCRETE = OBSERVATIONS["vector"], OBSERVATIONS["discrete"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jfi", {"gamma_g": math.nan}), ("jfi", {"lambda_g": "0.1"}), ("count_bonus", {"weight": math.inf}),
        ("re3", {"k": 2.5}), ("re3", {"k": 0}), ("rnd", {"clip": -1.0}), ("rnd", {"batch_size": "64"}),
        ("ride", {"inverse_weight": math.nan}), ("ride", {"memory_size": 0}), ("mmrs", {"k": "5"}),
        ("mmrs", {"lambda_g": math.inf}), ("mmrs", {"kmeans_iterations": -1}), ("mmrs", {"decoder_variance": 0.0}),
        ("mmrs", {"preset": 3}), ("mmrs", {"clustering": "both"}), ("rnd", {"seed": "x"}), ("jfi", {"seed": -1}),
        ("mmrs", {"mask_uncontrollable": "false"}), ("mmrs", {"scale_global": 0}), ("jfi", {"count_start": "no"}),
    ],
)  # fmt: skip
def test_impossible_options_are_refused_by_name(name, options):
    with pytest.raises(InputError) as error:
        mmrs.make(name, DISCRETE, MOVES, **options)
    assert str(next(iter(options.values()))) in str(error.value)


def test_impossible_names_are_refused():
    with pytest.raises(InputError, match="there is no reward None"):
        mmrs.make(None, DISCRETE, MOVES)
    with pytest.raises(InputError, match="no option 'form'"):
        mmrs.make("count_bonus", DISCRETE, MOVES, form="entropy")
    inner = mmrs.make("jfi", DISCRETE, MOVES)
    with pytest.raises(InputError, match="torch's ModuleDict"):
        mmrs.Sum({"type": inner})
    with pytest.raises(InputError, match="weight"):
        mmrs.Weighted(inner, math.nan)


def test_gymnasium_frame_stacks_are_images():
    stacked = observation_spec(spaces.Box(0, 255, (4, 40, 48, 3), np.uint8))
    assert (stacked.kind, stacked.channels, stacked.image_size) == ("image", 12, (40, 48))
    obs = torch.randint(0, 256, (5, 4, 40, 48, 3), dtype=torch.uint8)
    expected = torch.cat([obs[:, k, :, :, c].unsqueeze(1) for k in range(4) for c in range(3)], 1)
    assert torch.equal(stacked.images(obs), expected)
    assert torch.equal(stacked.features(obs), expected.float())
    for shape in [(84, 84, 16), (5, 84, 84, 3), (2, 2, 64, 64)]:
        with pytest.raises(UnsupportedSpaceError, match="look like images"):
            mmrs.make("rnd", spaces.Box(0, 255, shape, np.uint8), MOVES)


def test_small_byte_boxes_are_vectors():
    assert observation_spec(spaces.Box(0, 255, (7, 7, 3), np.uint8)).kind == "vector"
    assert observation_spec(spaces.Box(0, 255, (128,), np.uint8)).kind == "vector"


def test_an_interrupted_update_leaves_compute_pure(monkeypatch):
    image = spaces.Box(0, 255, (36, 36), np.uint8)
    bonus, rollout = mmrs.make("mmrs", image, MOVES, k=4), make_rollout(image, steps=4, envs=2)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bonus.optimizer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bonus.update(rollout)
    before = {k: v.clone() for k, v in bonus.state_dict().items() if isinstance(v, torch.Tensor)}
    bonus.compute(rollout)
    assert all(torch.equal(v, bonus.state_dict()[k]) for k, v in before.items())


def test_update_works_inside_no_grad():
    bonus, rollout = mmrs.make("rnd", VECTOR, MOVES), make_rollout(VECTOR)
    with torch.no_grad():
        assert bonus.update(rollout)["rnd_loss"] > 0


def test_rnd_standardizes_far_from_the_origin():
    norm = mmrs.make("rnd", VECTOR, MOVES).norm
    x = torch.randn(1000, *VECTOR.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    norm.update(x + 2.0**20)
    expected = ((x - x.mean(0)) / x.std(0, correction=0)).clamp(-5, 5)
    torch.testing.assert_close(norm(x + 2.0**20).double(), expected, atol=1e-5, rtol=0)


def test_statistics_of_bytes_are_those_of_floats():
    image = spaces.Box(0, 255, (3, 36, 40), np.uint8)
    fast, slow = (mmrs.make("rnd", image, MOVES, latent_dim=2).norm for _ in range(2))
    for seed in range(3):
        x = torch.randint(0, 256, (70, 3, 36, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
        fast.update(x)
        slow.update(x.double())
    torch.testing.assert_close(fast.mean, slow.mean, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(fast.variance, slow.variance, rtol=1e-10, atol=1e-10)


def test_ride_counts_the_same_in_blocks():
    """More steps than one block of queries: cutting the rollout must not change the counts."""
    bonus = mmrs.make("ride", VECTOR, MOVES, latent_dim=4, memory_size=16)
    rollout = make_rollout(VECTOR, steps=2 * QUERIES + 5, envs=2, end=0.02)
    whole, _ = bonus.compute(rollout)
    memory, parts, first_final = None, [], 0
    for start in range(0, rollout.num_steps, 50):
        stop = min(start + 50, rollout.num_steps)
        ended = int(rollout.done[start:stop].sum())
        part = mmrs.Rollout(
            obs=rollout.obs[start : stop + 1], actions=rollout.actions[start:stop],
            terminated=rollout.terminated[start:stop], truncated=rollout.truncated[start:stop],
            final_obs=rollout.final_obs[first_final : first_final + ended], valid=rollout.valid[start:stop],
        )  # fmt: skip
        reward, memory = bonus.compute(part, memory)
        parts.append(reward)
        first_final += ended
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-4, atol=1e-5)


def test_the_recorder_refuses_flags_of_the_wrong_length():
    recorder = mmrs.RolloutRecorder("SAME_STEP")
    recorder.reset(np.zeros((3, 2), np.float32))
    good = np.zeros(3, bool)
    for name in ("actions", "terminated", "truncated"):
        given = {"actions": np.zeros(3, int), "terminated": good, "truncated": good, name: np.array([True])}
        with pytest.raises(InputError, match=name):
            recorder.add(given["actions"], np.zeros((3, 2), np.float32), given["terminated"], given["truncated"])


def test_the_recorder_knows_modes_by_either_spelling():
    for text in ("NEXT_STEP", "NextStep", gym.vector.AutoresetMode.NEXT_STEP):
        assert mmrs.RolloutRecorder(text).mode is gym.vector.AutoresetMode.NEXT_STEP
