"""The report in a real browser: no network requests, sorting, values under the pointer, hostile names."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace

import pytest
from rich.console import Console
from tests.support.browser import Browser, find_browser
from tests.support.runs import made_up, write_grid, write_run

from mmrs.report.command import ReportConfig, report
from mmrs.report.rendering import method_colors

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_browser() is None, reason="no chromium, chromium-browser or google-chrome on PATH"),
]
HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>\"&{{7*7}}"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_grid(root, ("ALE/Alien-v5", "ALE/Breakout-v5", "CartPole-v1"), ("none", "mmrs"), seeds=2)
    config = made_up("CartPole-v1", "rnd", 0)
    folder = root / "<b onclick=alert(1)>&amp;'\"run"
    odd = replace(config, env=replace(config.env, id=HOSTILE), bonus=replace(config.bonus, name=HOSTILE))
    write_run(folder, odd, done=0.5, version=HOSTILE)
    (folder / "error.txt").write_text(HOSTILE)
    (folder / "audit.json").write_text(
        json.dumps({"findings": [{"flagged": True, "title": HOSTILE, "measured": HOSTILE, "remedy": HOSTILE}]})
    )
    return report(ReportConfig((root,), out=tmp_path_factory.mktemp("out")), Console(file=io.StringIO()))


@pytest.fixture(scope="module")
def browser(page):
    with Browser(width=1300, height=1000) as started:
        started.open(page.as_uri())
        started.wait("document.documentElement.dataset.ready === 'yes'")
        yield started


@pytest.fixture(autouse=True)
def no_errors(browser):
    yield
    assert browser.errors == []
    assert browser.evaluate("window.hit") is None


def column(browser, table, index):
    value = f"r.cells[{index}].dataset.value ?? r.cells[{index}].textContent.trim()"
    return browser.evaluate(f"[...document.querySelectorAll('#{table} tbody tr')].map(r => {value})")


def test_page_makes_no_network_requests(browser):
    assert [url.split(":")[0] for url in browser.requests] == ["file"]
    assert browser.evaluate("document.querySelectorAll('img, iframe, object, link:not([rel=icon])').length") == 0


def test_hostile_names_are_shown_as_they_are(browser):
    text = browser.evaluate("document.body.textContent")
    assert text.count(HOSTILE) >= 5  # game, method, version, flag
    assert "<b onclick=alert(1)>&amp;'\"run" in text
    assert browser.evaluate("document.querySelectorAll('[onclick], [onerror]').length") == 0
    mine = f"b => b.closest('tr').textContent.includes({json.dumps(HOSTILE)})"
    browser.evaluate(f"[...document.querySelectorAll('button.cell')].find({mine}).click()")
    assert browser.evaluate("document.getElementById('behind').open") is True
    assert browser.evaluate("document.getElementById('behind-errors').textContent") == HOSTILE
    browser.evaluate("document.getElementById('behind').close()")


def test_tables_sort_by_number_and_by_text_with_missing_last(browser):
    browser.click("#table-atari-game_return th:nth-child(3) button")
    assert column(browser, "table-atari-game_return", 2) == sorted(column(browser, "table-atari-game_return", 2))[::-1]
    steps = "#all-runs th:nth-child(5) button"
    browser.click(steps)
    down = [int(v) for v in column(browser, "all-runs", 4)]
    browser.click(steps)
    up = [int(v) for v in column(browser, "all-runs", 4)]
    assert down == sorted(down, reverse=True) != up == sorted(up)
    browser.click("#all-runs th:nth-child(1) button")
    names = column(browser, "all-runs", 0)
    assert names[0] == "<b onclick=alert(1)>&amp;'\"run"
    assert browser.evaluate("document.querySelector('#all-runs th').getAttribute('aria-sort')") == "ascending"
    other = "document.querySelectorAll('#table-other-game_return tbody tr')"
    for _ in range(2):  # up and down: missing values stay last
        browser.click("#table-other-game_return th:nth-child(2) button")
        assert "missing" in browser.evaluate(f"{other}[1].cells[1].textContent")


def hover(browser, section, share):
    """Move the pointer over the section's first chart; returns the lines of the tip."""
    find = f"document.querySelector('[data-panels={section}] figure')"
    browser.evaluate(f"{find}.scrollIntoView({{block: 'center'}})")
    browser.wait(f"{find}.querySelector('svg') !== null")
    box = f"{find}.querySelector('svg').getBoundingClientRect()"
    x, y, width = browser.evaluate(f"(b => [b.x, b.y + b.height / 2, b.width])({box})")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + share * width, y=y)
    browser.wait(f"{find}.querySelector('.tip').hidden === false")
    return browser.evaluate(f"[...{find}.querySelectorAll('.tip div')].map(d => d.textContent)")


def test_pointing_at_a_curve_shows_its_values(browser):
    lines = hover(browser, "learning", 0.999)
    assert lines[0] == "at 10M"
    # Two seeds at 100 and 101: mean 100.5, and Student's interval is 12.706 * 0.5 either way.
    assert lines[1] == "PPO: 100.5 [94.15, 106.9]"
    assert lines[2] == "MMRS: 200.5 [194.1, 206.9]"
    middle = hover(browser, "learning", 0.55)
    assert middle[0] != lines[0]
    assert 40 < float(middle[1].split()[1]) < 60


def test_axes_have_round_labels_and_charts_follow_the_width(browser):
    hover(browser, "learning", 0.5)
    svg = "document.querySelector('[data-panels=learning] figure svg')"
    labels = f"[...{svg}.querySelectorAll('text.{{}}')].map(t => t.textContent)"
    assert browser.evaluate(labels.format("y")) == ["0", "50", "100", "150", "200"]
    assert browser.evaluate(labels.format("x")) == ["5M", "10M"]
    fits = f"Math.abs({svg}.viewBox.baseVal.width - {svg}.getBoundingClientRect().width) < 1"
    assert browser.evaluate(fits)
    before = browser.evaluate(f"{svg}.viewBox.baseVal.width")
    browser.evaluate("document.querySelector('main').style.maxWidth = '700px'")
    browser.wait(f"{svg}.viewBox.baseVal.width !== {before} && {fits}")
    browser.evaluate("document.querySelector('main').style.maxWidth = ''")


def test_methods_have_the_colors_of_the_palette(browser):
    shades = (
        "[...document.querySelectorAll('[data-legend]')[1].querySelectorAll('.swatch')].map(s => s.style.background)"
    )
    colors = method_colors(["ppo", "mmrs", HOSTILE])
    assert browser.evaluate(shades) == [f"var(--color-{index})" for index in colors.values()]


def choose(browser, section, index):
    """Pick one of a section's choices; returns its name."""
    find = f"document.querySelector('[data-choose={section}]')"
    browser.evaluate(f"{find}.selectedIndex = {index}; {find}.dispatchEvent(new Event('change'))")
    return browser.evaluate(f"{find}.options[{index}].text")


def test_other_metrics_and_methods_can_be_chosen(browser):
    assert "share of the advantages" in choose(browser, "vanishing", 1)
    assert any(line.startswith("MMRS: 0.") for line in hover(browser, "vanishing", 0.5))
    assert choose(browser, "terms", 0) == "PPO"
    assert [line.split(":")[0] for line in hover(browser, "terms", 0.5)[1:]] == ["global", "local", "extrinsic"]
    assert len(hover(browser, "profiles", 0.5)) >= 3


def test_a_cell_shows_its_command_and_configuration(browser):
    browser.click("#table-atari-game_return tbody tr td:nth-child(2) button")
    assert browser.evaluate("document.getElementById('behind').open") is True
    assert "mmrs train --seed 0\nmmrs train --seed 1" in browser.evaluate(
        "document.getElementById('behind-command').textContent"
    )
    config = json.loads(browser.evaluate("document.getElementById('behind-config').textContent"))
    assert config["bonus"]["name"] == "none"
    browser.evaluate("document.getElementById('behind').close()")


def test_light_and_dark(browser):
    shade = "getComputedStyle(document.body).backgroundColor"
    browser.prefer("light")
    light = browser.evaluate(shade)
    browser.prefer("dark")
    assert browser.evaluate(shade) != light
    browser.evaluate("document.getElementById('theme').click()")
    assert browser.evaluate(shade) == light


def test_many_runs_are_built_and_opened_quickly(tmp_path):
    """A tenth of the paper's runs with all their points; benchmarks/report.py has them all."""
    write_grid(
        tmp_path / "runs", ("ALE/Alien-v5", "HopperBulletEnv-v0"), ("none", "re3", "ride", "rnd", "mmrs"), 10, 1000
    )
    began = time.process_time()
    built = report(ReportConfig((tmp_path / "runs",), out=tmp_path / "out"), Console(file=io.StringIO()))
    assert time.process_time() - began < 5.0
    with Browser() as started:
        began = time.perf_counter()
        started.open(built.as_uri())
        started.wait("document.documentElement.dataset.ready === 'yes'")
        assert time.perf_counter() - began < 3.0
        assert started.errors == []
