"""Runs that several tests of the report read."""

import pytest
from tests.support.runs import GAMES, write_grid


@pytest.fixture(scope="session")
def grid(tmp_path_factory):
    """Four games, three methods, three seeds; not to be written to."""
    root = tmp_path_factory.mktemp("grid")
    write_grid(root, GAMES, ("none", "rnd", "mmrs"), seeds=3)
    return root
