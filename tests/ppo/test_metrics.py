"""Metrics of a row: from any device and of any type."""

import numpy as np
import torch

from mmrs.ppo.metrics import reward_metrics, to_floats


def test_tensors_become_python_scalars_and_scalars_stay():
    row = {
        "whole": 3, "single": torch.tensor(0.5), "double": torch.tensor([0.1], dtype=torch.float64),
        "count": torch.tensor(7), "other": torch.tensor(1.5), "numpy": np.float32(0.25), "float": 2.0,
    }  # fmt: skip
    floats = to_floats(row)
    assert floats == {
        "whole": 3, "single": 0.5, "double": 0.1, "count": 7, "other": 1.5, "numpy": 0.25, "float": 2.0
    }  # fmt: skip
    assert list(floats) == list(row)
    assert all(type(value) in (int, float) for value in floats.values())


def test_shares_are_of_the_whole_and_zero_without_rewards():
    metrics = to_floats(reward_metrics({"a": torch.full((2, 3), -3.0), "b": torch.ones(2, 3)}))
    assert metrics == {
        "reward/a": -3.0, "reward/a_std": 0.0, "reward/a_share": 0.75,
        "reward/b": 1.0, "reward/b_std": 0.0, "reward/b_share": 0.25,
    }  # fmt: skip
    assert to_floats(reward_metrics({"a": torch.zeros(2, 3)}))["reward/a_share"] == 0.0
