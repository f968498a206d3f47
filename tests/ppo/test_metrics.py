"""Numbers of a row, wherever and of whatever type they are worked out."""

import numpy as np
import torch

from mmrs.ppo.metrics import as_numbers, reward_figures


def test_tensors_become_numbers_and_numbers_stay():
    row = {
        "whole": 3, "single": torch.tensor(0.5), "double": torch.tensor([0.1], dtype=torch.float64),
        "count": torch.tensor(7), "other": torch.tensor(1.5), "numpy": np.float32(0.25), "float": 2.0,
    }  # fmt: skip
    numbers = as_numbers(row)
    assert numbers == {
        "whole": 3, "single": 0.5, "double": 0.1, "count": 7, "other": 1.5, "numpy": 0.25, "float": 2.0
    }  # fmt: skip
    assert list(numbers) == list(row)
    assert all(type(value) in (int, float) for value in numbers.values())


def test_shares_are_of_the_whole_and_nothing_has_none():
    figures = as_numbers(reward_figures({"a": torch.full((2, 3), -3.0), "b": torch.ones(2, 3)}))
    assert figures == {
        "reward/a": -3.0, "reward/a_std": 0.0, "reward/a_share": 0.75,
        "reward/b": 1.0, "reward/b_std": 0.0, "reward/b_share": 0.25,
    }  # fmt: skip
    assert as_numbers(reward_figures({"a": torch.zeros(2, 3)}))["reward/a_share"] == 0.0
