"""The GridWorld example against the fractions printed in the paper."""

from fractions import Fraction

import pytest

from mmrs.errors import InputError
from mmrs.paper import gridworld as module
from mmrs.paper.gridworld import GridWorldConfig, fairness_labels, gridworld, paper_trajectories, trajectory

PAPER_A = [Fraction(n, 16) for n in range(1, 9)]
PAPER_B = [*PAPER_A[:5], Fraction(9, 32), Fraction(49, 144), Fraction(2, 5)]


def test_both_sequences_are_those_of_the_paper():
    walks = paper_trajectories()
    assert list(walks["a"].fairness) == PAPER_A
    assert list(walks["b"].fairness) == PAPER_B


def test_arrows_rise_everywhere_but_at_the_revisit():
    assert paper_trajectories()["a"].trend == (1,) * 7
    assert paper_trajectories()["b"].trend == (1, 1, 1, 1, -1, 1, 1)
    expected = ["1/16", "↗ 2/16", "↗ 3/16", "↗ 4/16", "↗ 5/16", "↘ 9/32", "↗ 49/144", "↗ 2/5"]
    assert fairness_labels(paper_trajectories()["b"]) == expected


def test_a_wall_bump_counts_as_a_visit():
    walk = trajectory("DDDRDUU")
    assert walk.cells[4] == walk.cells[5] == (1, 3)
    assert list(walk.fairness) == PAPER_B
    assert trajectory("LU").cells == ((0, 0),) * 3
    assert trajectory("RRRR").cells[-2:] == ((3, 0), (3, 0))


def test_walks_of_the_paper_stay_on_the_grid_and_move_one_cell_at_a_time():
    for walk in paper_trajectories().values():
        for (c0, r0), (c1, r1) in zip(walk.cells, walk.cells[1:], strict=False):
            assert abs(c0 - c1) + abs(r0 - r1) == 1


@pytest.mark.parametrize(("actions", "size"), [("DX", 4), ("D", 1)])
def test_bad_walks_are_refused(actions, size):
    with pytest.raises(InputError):
        trajectory(actions, size)


def test_command_prints_the_fractions_and_draws_the_picture(tmp_path, capsys):
    gridworld(GridWorldConfig(out=tmp_path / "new"))
    printed = capsys.readouterr().out
    assert "↘ 9/32" in printed
    assert "↗ 49/144" in printed
    assert {p.name for p in (tmp_path / "new").iterdir()} == {"gridworld.png", "gridworld.svg"}
    assert (tmp_path / "new" / "gridworld.png").read_bytes().startswith(b"\x89PNG")
    assert "↘ 9/32" in (tmp_path / "new" / "gridworld.svg").read_text()


def test_unwritable_folder_is_refused_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(module, "paper_trajectories", lambda: pytest.fail("worked before looking at the folder"))
    with pytest.raises(InputError, match="file"):
        gridworld(GridWorldConfig(out=tmp_path / "file" / "deeper"))
