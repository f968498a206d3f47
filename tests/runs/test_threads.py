"""A run computes with the threads it was given, in torch and behind NumPy."""

import pytest
import torch
from threadpoolctl import threadpool_info

from mmrs.runs.threads import set_num_threads


@pytest.mark.parametrize("number", [2, 1])
def test_torch_and_numpy_take_the_threads_they_are_given(number):
    try:
        set_num_threads(number)
        assert torch.get_num_threads() == number
        libraries = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        assert libraries and set(libraries) == {number}
    finally:
        set_num_threads(1)
