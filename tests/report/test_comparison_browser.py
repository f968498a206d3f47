"""The page of a comparison in a real browser: curves, heat maps and video."""

import re

import pytest
from tests.support.browser import Browser, find_browser
from tests.support.comparisons import WORLD, make_comparison

from mmrs.envs.rooms.maps import WALL
from mmrs.report.comparison import write_comparison_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no chromium, chromium-browser or google-chrome on PATH"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = write_comparison_page(tmp_path_factory.mktemp("page") / "index.html", make_comparison())
    with Browser() as started:
        started.open(path.as_uri())
        started.wait("document.documentElement.dataset.ready === 'yes'")
        yield started


def test_page_loads_without_network_requests(browser):
    # The video of the test is not one: the browser may log that, and nothing else.
    assert [error for error in browser.errors if "media" not in error.lower() and "data:" not in error] == []
    assert {url.split(":")[0] for url in browser.requests} <= {"file", "data"}


def test_curves_rise_where_success_does(browser):
    script = "[...document.querySelectorAll('.charts article:first-child .line')].map(p => p.getAttribute('d'))"
    good, bad = ([tuple(map(float, p.split())) for p in re.split("[ML]", d)[1:]] for d in browser.evaluate(script))
    assert len(good) == len(bad) == 3  # nothing before the first episode
    assert good[0][1] > good[1][1] > good[2][1]  # up is a smaller y
    assert len({y for _, y in bad}) == 1
    assert [x for x, _ in good] == [x for x, _ in bad]


def test_axes_have_round_labels(browser):
    labels = "[...document.querySelectorAll('.charts article:nth-child({}) text.{}')].map(t => t.textContent)"
    assert browser.evaluate(labels.format(1, "x")) == ["0", "1000", "2000", "3000", "4000"]
    assert browser.evaluate(labels.format(1, "y")) == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    assert browser.evaluate(labels.format(2, "y")) == ["0", "0.2", "0.4", "0.6", "0.8"]
    assert browser.evaluate(labels.format(3, "y")) == ["0", "10", "20", "30"]


def test_pointing_at_a_curve_shows_its_values(browser):
    find = "document.querySelector('.charts article:first-child svg')"
    x, y, width = browser.evaluate(f"(b => [b.x, b.y + b.height / 2, b.width])({find}.getBoundingClientRect())")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 0.97 * width, y=y)
    browser.wait("document.querySelector('.tip').hidden === false")
    lines = browser.evaluate("[...document.querySelectorAll('.tip')[0].children].map(d => d.textContent)")
    assert lines == ["at 4000", "mmrs: 90 %", "<b>ppo</b>: 0 %"]


def test_heat_maps_show_walls_visits_and_what_was_never_entered(browser):
    count = "document.querySelectorAll('.maps article:nth-child({}) {}').length"
    for number in (1, 2):
        assert browser.evaluate(count.format(number, ".wall")) == (WORLD == WALL).sum()
        assert browser.evaluate(count.format(number, ".cell")) == (WORLD != WALL).sum()
    opacity = "[...document.querySelectorAll('.maps article:nth-child({}) .cell')].map(c => +c.style.fillOpacity)"
    assert sorted(set(browser.evaluate(opacity.format(1)))) == [0, 1]
    assert browser.evaluate(opacity.format(1)).count(0) == 1
    assert set(browser.evaluate(opacity.format(2))) == {0}
    badge = "document.querySelector('.maps article:nth-child(1) .badge').textContent"
    assert browser.evaluate(badge) == "1 never entered"
    signs = "[...document.querySelectorAll('.maps article:nth-child(1) .sign')].map(s => s.textContent).sort()"
    assert browser.evaluate(signs) == ["door", "goal", "key", "start"]


def test_light_and_dark(browser):
    color = "getComputedStyle(document.body).backgroundColor"
    before = browser.evaluate(color)
    browser.click("#theme")
    assert browser.evaluate(color) != before
    browser.click("#theme")
    assert browser.evaluate(color) == before
