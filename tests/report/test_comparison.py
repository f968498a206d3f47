"""The page of a comparison: what it says of success, of seeds and of names that look like markup."""

from dataclasses import replace

import pytest
from tests.support.comparisons import make_comparison

from mmrs.errors import InputError
from mmrs.report.comparison import Comparison, Method, Run, render_comparison_page


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
