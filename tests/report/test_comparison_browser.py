"""The page of a comparison in a real browser: curves, heat maps and film stand where the data put them."""

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
        started.wait("document.readyState === 'complete'")
        yield started


def test_page_loads_and_asks_nobody(browser):
    # The film of the test is no film, which a browser may say; a page that works says nothing else.
    assert [error for error in browser.errors if "media" not in error.lower() and "data:" not in error] == []
    assert {url.split(":")[0] for url in browser.requests} <= {"file", "data"}


def test_curves_rise_where_success_does(browser):
    script = "[...document.querySelectorAll('.charts article:first-child polyline')].map(p => p.getAttribute('points'))"
    good, bad = ([tuple(map(float, p.split(","))) for p in line.split()] for line in browser.evaluate(script))
    assert len(good) == len(bad) == 3  # nothing before the first episode
    assert good[0][1] > good[1][1] > good[2][1]  # up is a smaller y
    assert len({y for _, y in bad}) == 1
    assert [x for x, _ in good] == [x for x, _ in bad]


def test_heat_maps_show_walls_visits_and_what_was_never_entered(browser):
    count = "document.querySelectorAll('.maps article:nth-child({}) {}').length"
    for place in (1, 2):
        assert browser.evaluate(count.format(place, ".wall")) == (WORLD == WALL).sum()
        assert browser.evaluate(count.format(place, ".cell")) == (WORLD != WALL).sum()
    opacity = "[...document.querySelectorAll('.maps article:nth-child({}) .cell')].map(c => +c.style.fillOpacity)"
    assert sorted(set(browser.evaluate(opacity.format(1)))) == [0, 1]
    assert browser.evaluate(opacity.format(1)).count(0) == 1
    assert set(browser.evaluate(opacity.format(2))) == {0}
    badge = "document.querySelector('.maps article:nth-child(1) .badge').textContent"
    assert browser.evaluate(badge) == "1 never entered"
    signs = "[...document.querySelectorAll('.maps article:nth-child(1) .sign')].map(s => s.textContent).sort()"
    assert browser.evaluate(signs) == ["door", "goal", "key", "start"]


def test_light_and_dark(browser):
    colour = "getComputedStyle(document.body).backgroundColor"
    before = browser.evaluate(colour)
    browser.click("#theme")
    assert browser.evaluate(colour) != before
    browser.click("#theme")
    assert browser.evaluate(colour) == before
