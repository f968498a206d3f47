"""The page of a comparison: its table, its charts, and names that look like markup."""

import json
import re
from dataclasses import replace

import pytest
from tests.support.comparisons import make_comparison

from mmrs.errors import InputError
from mmrs.report.comparison import Comparison, Method, Run, render_comparison_page


def panels(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_rows_hold_the_end_and_the_first_success():
    good, bad = make_comparison().methods
    assert good.row() == ("90%", "3k", "0.90", "37", "–")
    assert bad.row() == ("0%", "never", "0.00", "10", "–")
    three = replace(good, runs=(*make_comparison(2).methods[0].runs, bad.runs[0]))
    assert three.row()[:2] == ("60%", "3k (2/3 seeds)")
    assert Method("x", (Run(0, [1], {"game_return": [3.0]}),)).row() == ("–", "–", "3.00", "–", "–")


def test_columns_without_a_value_are_left_out():
    assert make_comparison().table()[0] == ("success", "first success at", "return", "true states per episode")
    scores = [("ppo", [-20.0, -5.0]), ("rnd", [-19.0, -4.0])]
    methods = tuple(Method(name, (Run(0, [1000, 2000], {"game_return": values}),)) for name, values in scores)
    other = Comparison("Other-v0", 2000, 1, methods)
    assert other.table() == (("return",), [("-5.00",), ("-4.00",)])
    page = render_comparison_page(other)
    assert re.findall(r"<th>(.*?)</th>", page)[:2] == ["method", "return"]
    assert "<th>coverage</th>" not in page
    nothing = Comparison("Other-v0", 2000, 1, (Method("ppo", (Run(0, [], {}),)),))
    assert nothing.table() == (("return",), [("–",)])


def test_a_single_seed_is_called_an_example_and_names_are_never_read_as_markup():
    page = render_comparison_page(make_comparison())
    assert "<b>ppo" not in page
    assert "&lt;b&gt;ppo" in page
    assert "not a measurement" in page
    assert "not a measurement" not in render_comparison_page(make_comparison(3))
    assert "http" not in page
    with pytest.raises(InputError, match="without methods"):
        render_comparison_page(replace(make_comparison(), methods=()))


def test_charts_have_a_line_per_run_in_the_color_of_its_method():
    success, game_return, states = panels(render_comparison_page(make_comparison(2)))
    assert [panel["title"] for panel in (success, game_return, states)] == [
        "Success",
        "Return",
        "True states per episode",
    ]
    assert (success["x"], success["xRange"], success["yRange"]) == ([1000, 2000, 3000, 4000], [0, 4000], [0, 1])
    assert (success["percent"], states["percent"], states["yRange"]) == (True, False, [0, 37])
    names = ["mmrs, seed 0", "mmrs, seed 1", "<b>ppo</b>, seed 0", "<b>ppo</b>, seed 1"]
    assert [series["name"] for series in success["series"]] == names
    assert success["series"][1]["mean"] == [None, 0.0, 0.5, 0.9]
    colors = [series["color"] for series in success["series"]]
    assert colors[0] == colors[1] != colors[2] == colors[3]


def test_runs_of_different_length_share_the_steps_of_a_chart():
    short = Run(1, [1500], {"game_return": [2.0]})
    runs = (Run(0, [1000, 2000], {"game_return": [1.0, 3.0]}), short)
    (panel,) = panels(render_comparison_page(Comparison("Other-v0", 2000, 2, (Method("ppo", runs),))))
    assert panel["x"] == [1000, 1500, 2000]
    assert [series["mean"] for series in panel["series"]] == [[1.0, None, 3.0], [None, 2.0, None]]


def test_other_environments_have_no_map_and_no_video():
    methods = (Method("ppo", (Run(0, [1000, 2000], {"game_return": [-20.0, -5.0]}),)),)
    page = render_comparison_page(Comparison("Other-v0", 2000, 1, methods))
    assert "Heat maps" not in page
    assert "<video" not in page
    (panel,) = panels(page)
    assert (panel["title"], panel["yRange"]) == ("Return", [-20, -5])
