"""The maze page as text: self-contained, escaped, and honest where JFI loses."""

import base64
import json
import re
import sys
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

import numpy as np
import pytest

from mmrs.errors import InputError, MissingExtraError
from mmrs.paper.maze.options import walk_options
from mmrs.paper.maze.page import render_maze_page, write_maze_page
from mmrs.paper.maze.results import MazeResult, MazeRow, MazeTrace, MethodTrace
from mmrs.paper.maze.text import CAVEATS, portal_letter, verdict

VANILLA = MethodTrace("vanilla", (0, 1, 1, 3, 0, 2), (0, 4), 4, 4, walk_options("vanilla", 2))
JFI = MethodTrace("jfi", (0, 1, 3, 2), (0,), 3, 3, walk_options("jfi", 2))
WALLS = ((True, False, False, True), (True, False, True, False), (False, True, False, True), (False, True, True, False))
TRACE = MazeTrace(2, "plus", 7, WALLS, ((1, 2),), 0, 3, (VANILLA, JFI))


def row(**changes):
    base = {"kind": "plus", "size": 20, "method": "jfi", "mazes": 100, "mean": 3491.4, "mean_low": 3351.0}
    base |= {"mean_high": 3627.0, "median": 3336.0, "censored": 2, "covered": 1.0, "cap": 400_000, "ratio": 1.53}
    base |= {"ratio_low": 1.44, "ratio_high": 1.63, "wins": 0.96, "verdict": "faster", "reason": "", "steps": (1,)}
    return MazeRow(**(base | changes))


def result(*rows):
    return MazeResult("coverage", {"lambda_g": 0.1, "gamma_g": 1.0}, rows, {}, 1.0, 100)


@dataclass
class Page(HTMLParser):
    text: str
    ids: list = field(default_factory=list)
    links: list = field(default_factory=list)

    def __post_init__(self):
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("src", "href") if name in values]


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_page_refers_to_nothing_outside_itself():
    page = render_maze_page(TRACE, result(row()))
    assert Page(page).links == ["data:,"]
    assert "://" not in page
    assert "@import" not in page


def test_ids_are_there_once_for_each_agent():
    ids = Page(render_maze_page(TRACE)).ids
    assert len(ids) == len(set(ids))
    numbers = ("step", "j", "entropy", "seen", "coverage", "episode", "cell", "steps-to-coverage", "maze")
    assert {f"{m}-{n}" for m in ("vanilla", "jfi") for n in numbers} <= set(ids)


def test_walks_and_walls_arrive_unchanged():
    data = data_of(render_maze_page(TRACE))
    for walk, run in zip(TRACE.runs, data["runs"], strict=True):
        assert np.frombuffer(base64.b64decode(run["states"]), "<u2").tolist() == list(walk.states)
        assert (run["steps"], run["resets"]) == (walk.steps, list(walk.resets))
    for bits, walls in zip(data["walls"], WALLS, strict=True):
        assert tuple(bool(bits >> side & 1) for side in range(4)) == walls
    assert [p["cells"] for p in data["portals"]] == [[1, 2]]


def test_portals_beyond_the_alphabet_get_a_number_and_none_is_called_start_or_goal():
    letters = [portal_letter(index) for index in range(60)]
    assert len(set(letters)) == 60
    assert letters[:7] == list("ABCDEFH")
    assert letters[24:26] == ["A2", "B2"]
    assert not {"G", "S"} & set(letters)


def test_names_cannot_break_out_of_the_page():
    nasty = replace(VANILLA, method="</script><img onerror=x>")
    page = render_maze_page(replace(TRACE, kind="<b>bold</b>", runs=(nasty, JFI)))
    assert "<img" not in page
    assert "<b>bold" not in page


def test_table_shows_the_benchmark_and_why_a_row_loses():
    loser = row(ratio=0.86, ratio_low=0.83, ratio_high=0.9, verdict="slower", reason="the discount hurts")
    page = render_maze_page(
        TRACE, result(row(), loser, row(method="vanilla", ratio=None, wins=None, verdict="baseline"))
    )
    assert "3,491 [3,351, 3,627]" in page
    assert "0.86 [0.83, 0.90]" in page
    assert "slower: the discount hurts" in page
    assert "2 of 100" in page
    assert 'id="benchmark"' not in render_maze_page(TRACE)


def test_a_win_is_called_a_win():
    found = verdict(TRACE)
    assert not found.loses
    assert "wins by a factor of 1.33" in found.sentences[1]


@pytest.mark.parametrize(
    ("lambda_g", "gamma_g", "word"),
    [(1.0, 1.0, "exceeds the step cost"), (0.1, 0.5, "takes 0.5 of J off every step"), (0.1, 1.0, "luck of one maze")],
)
def test_a_loss_is_called_a_loss_with_its_reason(lambda_g, gamma_g, word):
    options = walk_options("jfi", 2, weight=lambda_g, gamma_g=gamma_g)
    slow = replace(JFI, states=(0, 0, 0, 0, 0, 1, 3, 2), steps=7, steps_to_coverage=7, options=options)
    trace = replace(TRACE, runs=(VANILLA, slow))
    found = verdict(trace)
    assert found.loses
    assert "loses by a factor of 1.75" in found.sentences[1]
    assert word in found.sentences[1]
    assert "verdict loses" in render_maze_page(trace)


def with_options(**options):
    runs = [replace(run, options=walk_options(run.method, 2, **options)) for run in (VANILLA, JFI)]
    return replace(TRACE, runs=tuple(runs))


def shown_settings(page):
    card = re.search(r'id="settings">(.*?)</dl>', page, re.S)[1]
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", card, re.S))


def test_page_shows_the_settings_it_was_run_with():
    assert shown_settings(render_maze_page(TRACE)) == {
        "goal": "an ordinary cell",
        "weight λ_G": "0.1",
        "discount γ_G inside G": "1",
        "visits counted": "in each episode",
        "discount γ": "0.99",
        "learning rate α": "0.2",
        "random actions ε": "0.001",
        "ties": "at random",
        "longest episode": "40 steps (10 S)",
        "step cap": "4,000 steps (1000 S)",
    }
    options = {"weight": 0.5, "gamma_g": 0.9, "gamma": 0.8, "alpha": 0.7, "epsilon": 0.6, "episode_cap": 6}
    options |= {"step_cap": 80, "lifelong": True, "goal_ends": True, "goal_potential_zero": True, "first_ties": True}
    assert shown_settings(render_maze_page(with_options(**options))) == {
        "goal": "pays 1 and ends the episode",
        "weight λ_G": "0.5",
        "discount γ_G inside G": "0.9",
        "J at the goal": "taken as 0",
        "visits counted": "over the whole run",
        "discount γ": "0.8",
        "learning rate α": "0.7",
        "random actions ε": "0.6",
        "ties": "the first action",
        "longest episode": "6 steps (1.5 S)",
        "step cap": "80 steps (20 S)",
    }
    walker = replace(JFI, method="random_walk", options=walk_options("random_walk", 2))
    settings = shown_settings(render_maze_page(replace(TRACE, runs=(VANILLA, walker))))
    assert settings["random actions ε"] == "0.001 (Q-learning), 1 (random walk)"
    assert "weight λ_G" not in settings


def test_settings_of_the_table_are_named_too():
    found = replace(result(row(censored=0)), config={"lambda_g": 0.1, "alpha": 0.5, "first_ties": True, "out": "x"})
    assert "lambda_g = 0.1, alpha = 0.5, first_ties." in render_maze_page(TRACE, found)


def test_a_goal_that_ends_the_episode_is_mentioned_once_and_only_where_it_does():
    page = render_maze_page(with_options(goal_ends=True))
    assert "There is no reward" not in page
    assert page.count("locked in") == 1
    assert page.count("pays 1 and ends the episode, and the next") == 1
    plain = render_maze_page(TRACE)
    assert "locked in" not in plain
    assert "There is no reward for reaching the goal" in plain
    slow = replace(JFI, steps=9, steps_to_coverage=9, options=walk_options("jfi", 2, goal_ends=True))
    lost = verdict(replace(TRACE, runs=(with_options(goal_ends=True).runs[0], slow)))
    assert lost.loses
    assert "luck" not in " ".join(lost.sentences)
    assert " ".join(lost.sentences).count("locked in") == 1


def test_lifelong_counts_are_named_where_they_are_used():
    assert "Jain&#39;s index of the visits of the whole run" in render_maze_page(with_options(lifelong=True))
    assert "fairness J<br>whole run" in render_maze_page(with_options(lifelong=True))
    assert "fairness J<br>this episode" in render_maze_page(TRACE)


def test_limits_claim_nothing_for_fairness_that_was_not_measured():
    text = " ".join(CAVEATS)
    assert "one setting serves every size" not in text
    assert "level with it on plus 5" in text


def test_a_walk_that_never_covers_is_reported_as_a_failure():
    lost = replace(JFI, steps_to_coverage=None)
    found = verdict(replace(TRACE, runs=(VANILLA, lost)))
    assert found.loses
    assert "had not seen every cell" in found.sentences[0]
    both = verdict(replace(TRACE, runs=(replace(VANILLA, steps_to_coverage=None), lost)))
    assert not both.loses
    assert "Neither" in both.sentences[1]


def test_limits_are_stated_even_where_jfi_wins():
    page = render_maze_page(TRACE)
    assert "Where fairness does not help" in page
    assert page.count("<li>") >= 6


def test_page_is_written_whole(tmp_path):
    path = write_maze_page(tmp_path / "maze.html", TRACE)
    assert path.read_text() == render_maze_page(TRACE)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("change", [{"runs": ()}, {"size": 1}, {"size": 256}])
def test_what_cannot_be_shown_is_refused(change):
    with pytest.raises(InputError):
        render_maze_page(replace(TRACE, **change))


def test_missing_jinja_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"mmrs\[report\]"):
        render_maze_page(TRACE)
