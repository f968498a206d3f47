"""The maze figure shows the maze and the means it was given."""

from dataclasses import replace

import pytest

from mmrs.errors import InputError, MissingExtraError
from mmrs.paper.maze.figures import draw_bars, draw_maze, draw_maze_figure
from mmrs.paper.maze.options import walk_options
from mmrs.paper.maze.results import MazeResult, MazeRow, trace
from mmrs.report.rendering import new_figure


def row(kind, size, method, mean, censored=0):
    rest = {"ratio": None, "ratio_low": None, "ratio_high": None, "wins": None, "verdict": "baseline", "reason": ""}
    interval = {"mean": mean, "mean_low": 0.9 * mean, "mean_high": 1.2 * mean, "median": mean}
    return MazeRow(
        kind, size, method, mazes=10, censored=censored, covered=1.0, cap=10**6, steps=(1,), **interval, **rest
    )


ROWS = tuple(
    row(kind, size, method, 10.0 * size * size / (1 + index), censored=index)
    for kind in ("plus", "perfect")
    for size in (5, 20)
    for index, method in enumerate(("vanilla", "jfi"))
)
RESULT = MazeResult("coverage", {}, ROWS, {}, 1.0, 1)


@pytest.fixture(scope="module")
def walked():
    return trace(20, "plus", 0, [walk_options("jfi", 20, step_cap=1)])


def test_figure_is_written_as_png_and_svg(walked, tmp_path):
    paths = draw_maze_figure(walked, RESULT, tmp_path)
    assert [path.name for path in paths] == ["maze.png", "maze.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    svg = paths[1].read_text()
    for text in ("(a) a 20 × 20 plus maze", "(b) plus mazes", "(c) perfect mazes", "Q-learning + JFI"):
        assert text in svg


def test_bars_stand_at_the_means_with_their_intervals():
    axes = new_figure(3, 3).add_subplot()
    draw_bars(axes, ROWS[:4])
    heights = {
        bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers if bars.get_label()[0] == "Q"
    }
    assert heights == {"Q-learning": [250.0, 4000.0], "Q-learning + JFI": [125.0, 2000.0]}
    ends = [segment[:, 1].tolist() for bars in axes.collections for segment in bars.get_segments()]
    assert [225.0, 300.0] in [pytest.approx(end) for end in ends]
    assert "lower bound" in axes.get_xlabel()


def test_maze_panel_draws_every_wall_and_both_ends_of_every_portal(walked):
    axes = new_figure(3, 3).add_subplot()
    draw_maze(axes, walked)
    walls = sum(north + west for north, _, _, west in walked.walls)
    assert len(axes.lines) == walls + 1
    letters = sorted(text.get_text() for text in axes.texts)
    assert letters == sorted(2 * list("ABCDEFH") + ["S", "G"])
    assert len(walked.portals) == 7


def test_result_without_rows_is_refused(walked, tmp_path):
    with pytest.raises(InputError, match="rows"):
        draw_maze_figure(walked, replace(RESULT, rows=()), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_missing_matplotlib_names_the_extra_and_writes_nothing(walked, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"mmrs\[report\]"):
        draw_maze_figure(walked, RESULT, tmp_path)
    assert list(tmp_path.iterdir()) == []
