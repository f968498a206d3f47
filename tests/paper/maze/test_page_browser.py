"""The maze page in a real browser: what it shows is what the run did."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support import maze_reference as reference
from tests.support.browser import Browser, find_browser

from mmrs.envs.maze.maze import generate
from mmrs.paper.maze.experiment import MazeConfig, maze
from mmrs.paper.maze.experiment import run as run_mazes
from mmrs.paper.maze.options import walk_options
from mmrs.paper.maze.page import write_maze_page
from mmrs.paper.maze.results import trace

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no chromium, chromium-browser or google-chrome on PATH"),
]


@pytest.fixture(scope="module")
def walked():
    walks = [walk_options("vanilla", 10), walk_options("jfi", 10)]
    return trace(10, "plus", 6, walks)  # both walks take several episodes, and JFI loses


@pytest.fixture(scope="module")
def browser(walked, tmp_path_factory):
    path = write_maze_page(tmp_path_factory.mktemp("page") / "maze.html", walked)
    with Browser() as started:
        started.open(path.as_uri())
        started.wait("document.documentElement.dataset.ready === 'yes'")
        yield started


@pytest.fixture(autouse=True)
def at_the_start(browser):
    browser.press("Home")
    yield
    assert browser.errors == []


def value(browser, name):
    return float(browser.evaluate(f"document.getElementById('{name}').dataset.value"))


def slide(browser, step):
    script = (
        "(() => {{ const s = document.getElementById('step'); s.value = {}; s.dispatchEvent(new Event('input')); }})()"
    )
    browser.evaluate(script.format(step))


def expected(run, step, cells):
    """The statistics of a walk at one of its steps, recounted from the first visit."""
    step = min(step, run.steps)
    resets = set(run.resets)
    arrivals = [i for i in range(len(run.states)) if i not in resets]
    visit = 0 if step == 0 else arrivals[step - 1]
    start = max(r for r in run.resets if r <= visit)
    first = 0 if run.options.lifelong else start
    counts = np.bincount(run.states[first : visit + 1], minlength=cells)
    share = counts[counts > 0] / counts.sum()
    seen = len(set(run.states[: visit + 1]))
    return {
        "step": step,
        "cell": run.states[visit],
        "episode": run.resets.index(start) + 1,
        "j": counts.sum() ** 2 / (cells * (counts**2).sum()),
        "entropy": float(-(share * np.log(share)).sum()),
        "seen": seen,
        "coverage": seen / cells,
    }


def test_page_loads_without_errors_and_network_requests(browser):
    assert browser.errors == []
    assert [url.split(":")[0] for url in browser.requests] == ["file"]


def check_numbers(browser, walked, cells):
    last = max(run.steps for run in walked.runs)
    around_resets = [r - i + d for run in walked.runs for i, r in enumerate(run.resets) for d in (-1, 0, 1)]
    jumps = np.random.default_rng(0).integers(0, last, 25).tolist()
    for step in [0, 1, last, last - 1, *around_resets, *jumps]:
        if not 0 <= step <= last:
            continue
        slide(browser, step)
        for run in walked.runs:
            for name, number in expected(run, step, cells).items():
                assert value(browser, f"{run.method}-{name}") == pytest.approx(number, abs=1e-9), (
                    run.method,
                    name,
                    step,
                )


def test_numbers_equal_those_of_the_run_at_every_kind_of_step(browser, walked):
    check_numbers(browser, walked, 100)


def test_numbers_equal_those_of_a_run_with_a_terminal_goal_and_lifelong_counts(tmp_path):
    options = {"protocol": "literal", "lifelong_counts": True, "goal_potential_zero": True, "first_ties": True}
    options |= {"alpha": 0.5, "gamma": 0.95, "epsilon": 0.02, "episode_cap": 3, "step_cap": 40, "lambda_g": 0.3}
    config = MazeConfig(sizes=(6,), kinds=("plus",), mazes=1, first_seed=5, page_size=6, out=tmp_path, **options)
    maze(config)
    result, next_state = run_mazes(config), generate(6, "plus", 5, "terminal").next_state.tolist()
    settings = {"episode_cap": 3 * 36, "step_cap": 40 * 36, "weight": 0.3, "goal_ends": True, "lifelong": True}
    names = ("goal_potential_zero", "first_ties", "alpha", "gamma", "epsilon")
    settings |= {name: options[name] for name in names}
    walks = {m: walk_options(m, 6, **settings) for m in ("vanilla", "jfi")}
    with Browser() as started:
        started.open((tmp_path / "maze.html").as_uri())
        started.wait("document.documentElement.dataset.ready === 'yes'")
        # The plain reference knows nothing of the experiment or the page.
        known = [as_run(m, reference.walk(next_state, walks[m], 5), walks[m]) for m in walks]
        assert [one.steps for one in known] == [cell.steps[0] for cell in result.rows]
        assert min(len(one.resets) for one in known) > 2
        check_numbers(started, SimpleNamespace(runs=known), 36)
        assert "over the whole run" in started.evaluate("document.getElementById('settings').textContent")
        assert started.errors == []


def as_run(method, walk, options):
    return SimpleNamespace(method=method, states=walk.states, resets=walk.resets, steps=walk.steps, options=options)


def test_the_walk_tested_has_several_episodes(walked):
    assert min(len(run.resets) for run in walked.runs) > 1


def test_text_shows_the_rounded_value(browser, walked):
    slide(browser, 700)
    for run in walked.runs:
        want = expected(run, 700, 100)
        shown = browser.evaluate(
            f"['j','entropy','coverage'].map(n => document.getElementById('{run.method}-'+n).textContent)"
        )
        assert shown == [
            f"{want['j']:.4f}",
            f"{want['entropy']:.3f} / {math.log(100):.3f}",
            f"{want['coverage']:.1%}".replace("%", " %"),
        ]


def test_heat_map_counts_equal_the_run(browser, walked):
    for step in (5, 1500, 40, 2037, 0):
        slide(browser, step)
        for index, run in enumerate(walked.runs):
            visit = browser.evaluate(f"walks[{index}].at({step}).visit")
            start = max(r for r in run.resets if r <= visit)
            for episode_only, first in ((False, 0), (True, start)):
                shown = browser.evaluate(f"Array.from(walks[{index}].visits({visit}, {str(episode_only).lower()}))")
                assert shown == np.bincount(run.states[first : visit + 1], minlength=100).tolist()


def test_slider_moves_both_agents(browser, walked):
    pictures = "['vanilla', 'jfi'].map(m => document.getElementById(m + '-maze').toDataURL())"
    before = browser.evaluate(pictures)
    slide(browser, 60)
    assert all(a != b for a, b in zip(before, browser.evaluate(pictures), strict=True))
    for run in walked.runs:
        assert value(browser, f"{run.method}-cell") == run.states[60]


def pixel(browser, method, cell, dx, dy):
    script = """(() => {{ const c = document.getElementById('{}-maze'), u = c.width / 10;
      const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {{willReadFrequently: true}});
      copy.drawImage(c, 0, 0);
      return Array.from(copy.getImageData(({} + {}) * u, ({} + {}) * u, 1, 1).data).slice(0, 3); }})()"""
    return browser.evaluate(script.format(method, cell % 10, dx, cell // 10, dy))


def test_agents_are_drawn_where_they_stand(browser, walked):
    browser.prefer("light")
    browser.evaluate("redraw()")
    for step in (60, 61, 500):
        slide(browser, step)
        for run in walked.runs:
            assert max(pixel(browser, run.method, run.states[step], 0.5, 0.4)) < 60
            assert min(pixel(browser, run.method, run.states[step], 0.5, 0.17)) > 240  # the white ring


def test_portals_are_drawn_in_their_colors_in_both_mazes(browser, walked):
    shown = browser.evaluate("data.portals.map(p => p.color)")
    assert len(shown) == len(walked.portals) > 0
    for color, pair in zip(shown, walked.portals, strict=True):
        rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
        for method in ("vanilla", "jfi"):
            assert all(pixel(browser, method, cell, 0.25, 0.3) == rgb for cell in pair)
    ordinary = next(c for c in range(5, 95) if all(c not in pair for pair in walked.portals))
    assert pixel(browser, "jfi", ordinary, 0.25, 0.3) not in [[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in shown]
    letters = browser.evaluate("[...document.querySelectorAll('#portals .letter')].map(e => e.textContent)")
    assert letters == list("ABC")


def test_walls_are_drawn_where_they_stand(browser, walked):
    browser.prefer("light")
    browser.evaluate("redraw()")
    for cell in range(10, 100):
        dark = max(pixel(browser, "jfi", cell, 0.5, 0.0)) < 100
        assert dark == walked.walls[cell][0], cell


def test_keyboard_steps_plays_and_pauses(browser):
    browser.press("ArrowRight")
    browser.press("ArrowRight", shift=True)
    browser.press("ArrowLeft")
    assert value(browser, "now") == 100
    browser.press("ArrowLeft", shift=True)
    assert value(browser, "now") == 0
    browser.press("ArrowRight", shift=True)
    browser.press(" ")
    browser.wait("Number(document.getElementById('now').dataset.value) > 110")
    browser.press(" ")
    stopped = value(browser, "now")
    assert browser.evaluate("document.getElementById('play').textContent") == "Play"
    assert browser.evaluate("new Promise(done => setTimeout(() => done(page.step), 200))") == stopped
    browser.press("End")
    assert value(browser, "now") == browser.evaluate("last")


def test_page_shows_that_jfi_lost_and_after_how_many_steps_each_was_done(browser, walked):
    text = browser.evaluate("document.getElementById('verdict').textContent")
    assert "JFI loses" in text
    for run in walked.runs:
        assert f"{run.steps:,} steps" in text
        assert value(browser, f"{run.method}-steps-to-coverage") == run.steps_to_coverage
        slide(browser, run.steps - 1)
        assert browser.evaluate(f"document.getElementById('{run.method}-badge').textContent") == "exploring"
        slide(browser, run.steps)
        assert browser.evaluate(f"document.getElementById('{run.method}-badge').textContent") == "every cell seen"


def test_clicking_a_curve_goes_there(browser):
    browser.click("#chart-coverage")
    cursor, middle = browser.evaluate("[charts[1].scale.x(page.step), charts[1].width / 2]")
    assert 0 < value(browser, "now") < browser.evaluate("last")
    assert cursor == pytest.approx(middle, abs=1.5)


def test_both_themes_draw_and_the_button_changes_between_them(browser):
    floors = []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.evaluate("redraw()")
        floors.append(pixel(browser, "jfi", 55, 0.5, 0.3))
    assert min(floors[0]) > 200
    assert max(floors[1]) < 80
    browser.click("#theme")
    assert pixel(browser, "jfi", 55, 0.5, 0.3) == floors[0]


def test_a_long_walk_stays_smooth(walked, tmp_path):
    long = trace(20, "perfect", 3, [walk_options(m, 20, weight=1.0, step_cap=50_000) for m in ("vanilla", "jfi")])
    assert max(run.steps for run in long.runs) > 40_000
    with Browser() as browser:
        browser.open(write_maze_page(tmp_path / "long.html", long).as_uri())
        jumps = "(() => { const t = performance.now(); for (let i = 0; i < 60; i++) go((i * 7919) % last);"
        assert browser.evaluate(jumps + "return (performance.now() - t) / 60; })()") < 50  # ms; about 2 when idle
        assert browser.errors == []
