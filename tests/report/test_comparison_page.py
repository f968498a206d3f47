"""The page of a comparison: what it says of success, of seeds and of names that look like markup."""

from dataclasses import replace

import numpy as np
import pytest

from mmrs.envs.rooms_map import SIDE, WALL, key_rooms
from mmrs.errors import InputError
from mmrs.report.comparison_data import Comparison, Method, Run
from mmrs.report.comparison_page import render_comparison_page

WORLD = key_rooms().reshape(SIDE, SIDE)


def make_run(seed, success):
    steps = [1000 * (i + 1) for i in range(len(success))]
    states = [None if value is None else 10 + 30 * value for value in success]
    return Run(seed, steps, {"env/success": success, "game_return": success, "env/states": states})


def make_comparison(seeds=1):
    visits = np.where(WORLD == WALL, 0, 7)
    visits[11, 11] = 0
    good = tuple(make_run(seed, [None, 0.0, 0.5, 0.9]) for seed in range(seeds))
    bad = tuple(make_run(seed, [None, 0.0, 0.0, 0.0]) for seed in range(seeds))
    methods = (Method("mmrs", good, visits), Method("<b>ppo</b>", bad, visits * 0))
    return Comparison("mmrs/KeyRooms-v0", 4000, seeds, methods, {"clip": "0.2"}, WORLD, b"film", "mmrs")


def test_rows_tell_the_end_and_the_first_success():
    good, bad = make_comparison().methods
    assert good.row() == ("90%", "3k", "0.90", "37", "–")
    assert bad.row() == ("0%", "never", "0.00", "10", "–")
    three = replace(good, runs=(*make_comparison(2).methods[0].runs, bad.runs[0]))
    assert three.row()[:2] == ("60%", "3k (2/3 seeds)")
    assert Method("x", (Run(0, [1], {"game_return": [3.0]}),)).row() == ("–", "–", "3.00", "–", "–")


def test_a_single_seed_is_called_an_example_and_names_are_never_read_as_markup():
    page = render_comparison_page(make_comparison())
    assert "<b>ppo" not in page
    assert "&lt;b&gt;ppo" in page
    assert "no measurement" in page
    assert "no measurement" not in render_comparison_page(make_comparison(3))
    assert "http" not in page
    with pytest.raises(InputError, match="without methods"):
        render_comparison_page(replace(make_comparison(), methods=()))


def test_other_environments_have_no_map_and_no_film():
    methods = (Method("ppo", (Run(0, [1000, 2000], {"game_return": [-20.0, -5.0]}),)),)
    page = render_comparison_page(Comparison("Other-v0", 2000, 1, methods))
    assert "Heat maps" not in page
    assert "<video" not in page
    assert page.count("<polyline") == 1
