"""The maze generator against gym-maze's rules, and mazes as files."""

import json
import subprocess
import sys

import numpy as np
import pytest

from mmrs.envs.maze.maze import KINDS, Maze, build, generate, generate_many, unreachable_rate
from mmrs.errors import InputError, StorageError

SEEDS = np.arange(20_000, dtype=np.uint64)


@pytest.mark.parametrize(
    ("kind", "size", "low", "high"),
    [("perfect", 5, 0.43, 0.48), ("perfect", 10, 0.55, 0.59), ("plus", 5, 0.10, 0.13), ("plus", 10, 0.11, 0.13)],
)
def test_first_draws_with_cells_behind_a_terminal_goal_come_as_often_as_in_gym_maze(kind, size, low, high):
    assert low < unreachable_rate(size, kind, "terminal", mazes=20_000) < high


def test_with_an_inert_goal_perfect_mazes_are_always_connected_and_portals_rarely_shut_a_cell_off():
    assert unreachable_rate(10, "perfect", "inert", mazes=2000) == 0
    assert 0 < unreachable_rate(10, "plus", "inert", mazes=5000) < 0.01


def test_most_perfect_mazes_have_one_cycle_through_the_root():
    openings = generate_many(20, "perfect", SEEDS[:2000]).open
    edges = np.unpackbits(openings, axis=1).sum(1) / 2
    assert set(edges.tolist()) == {399, 400}  # a tree of 400 cells has 399
    assert 0.69 < (edges == 400).mean() < 0.76


@pytest.mark.parametrize("size", [2, 3, 5, 10])
@pytest.mark.parametrize("goal", ["inert", "terminal"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_cell_can_be_reached_and_both_builders_agree(kind, goal, size):
    batch = generate_many(size, kind, SEEDS[:50], goal)
    for seed in range(50):
        maze = generate(size, kind, seed, goal)
        assert maze.reachable(goal).all()
        # `build` makes the table from walls and portals on its own, in numpy.
        np.testing.assert_array_equal(maze.next_state, batch.next_state[seed])
    if goal == "terminal" and size > 2:
        assert (batch.draws > 1).any()


def test_plus_mazes_have_loops_and_portals():
    maze, plain = generate(20, "plus", 3), generate(20, "perfect", 3)
    assert len(maze.portals) == 7  # round(20 / 3)
    assert len(plain.portals) == 0
    extra = ((~maze.walls).sum() - (~plain.walls).sum()) / 2
    assert 70 <= extra <= 81  # 20 % of 400; a cell without a closed wall inside the maze gets none
    assert not {0, maze.goal} & set(maze.portals.ravel().tolist())


def test_a_portal_is_left_on_its_other_side():
    maze = generate(10, "plus", 0)
    a, b = maze.portals[0].tolist()
    steps = {0: -10, 1: 10, 2: 1, 3: -1}
    for here, there in ((a, b), (b, a)):
        ways_in = [(here - step, d) for d, step in steps.items() if not maze.walls[here, d ^ 1] and here - step >= 0]
        assert ways_in
        for cell, direction in ways_in:
            assert maze.next_state[cell, direction] == there


def test_a_bump_stays_in_place():
    maze = generate(8, "plus", 1)
    for state in range(maze.states):
        for direction in range(4):
            assert (maze.next_state[state, direction] == state) == bool(maze.walls[state, direction])


def test_a_seed_names_a_maze():
    first, again, other = generate(10, "plus", 7), generate(10, "plus", 7), generate(10, "plus", 8)
    np.testing.assert_array_equal(first.next_state, again.next_state)
    assert (first.next_state != other.next_state).any()


def test_a_maze_survives_its_file(tmp_path):
    maze = generate(7, "plus", 2, "terminal")
    maze.save(tmp_path / "maze.json")
    loaded = Maze.load(tmp_path / "maze.json")
    assert (loaded.size, loaded.kind, loaded.seed) == (7, "plus", 2)
    for name in ("walls", "portals", "next_state"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(maze, name))
    assert [path.name for path in tmp_path.iterdir()] == ["maze.json"]


def _spoil(**changes):
    return lambda content: {**content, **changes}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: [], "format"),
        (_spoil(format="other"), "format"),
        (_spoil(size=1), "from 2"),
        (_spoil(size="5"), "from 2"),
        (_spoil(size=6), "6 lists of 6"),
        (_spoil(kind=3), "kind"),
        (_spoil(walls="none"), "walls"),
        (_spoil(walls=[[0.5] * 5] * 5), "whole numbers"),
        (_spoil(walls=[[16] * 5] * 5), "between 0 and 15"),
        (_spoil(walls=[[0] * 5] * 5), "outer wall"),
        (_spoil(walls=[[15, 11, 15, 15, 15], *[[15] * 5] * 4]), "one side only"),
        (_spoil(walls=[[15, 13, 15, 15, 15], *[[15] * 5] * 4]), "one side only"),
        (_spoil(portals=[[0, 3]]), "start or goal"),
        (_spoil(portals=[[3, 24]]), "start or goal"),
        (_spoil(portals=[[3, 99]]), "outside"),
        (_spoil(portals=[[3, 4], [4, 5]]), "two portals"),
        (_spoil(portals=[[3]]), "portals"),
        (_spoil(portals=None), "portals"),
        (lambda c: {k: v for k, v in c.items() if k != "seed"}, "seed"),
    ],
)
def test_a_corrupt_file_is_refused_with_its_reason(tmp_path, change, message):
    path = tmp_path / "maze.json"
    generate(5, "plus", 0).save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(InputError, match=message) as error:
        Maze.load(path)
    assert str(path) in str(error.value)


def test_files_that_are_no_text_or_not_there_are_refused(tmp_path):
    path = tmp_path / "maze.json"
    with pytest.raises(InputError, match="cannot read"):
        Maze.load(path)
    for content in (b"", b'{"format":', b"\xff\xfe\x00"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="not JSON"):
            Maze.load(path)
    with pytest.raises(StorageError, match="cannot write"):
        generate(3).save(path / "below" / "maze.json")


@pytest.mark.parametrize("size", [1, 0, -3, 2.5, True, "5", 1001])
def test_invalid_sizes_are_refused(size):
    with pytest.raises(InputError, match="from 2 to 1000"):
        generate(size)


def test_unknown_words_and_seeds_are_refused():
    with pytest.raises(InputError, match="Did you mean 'perfect'"):
        generate(5, "perfct")
    with pytest.raises(InputError, match="Did you mean 'terminal'"):
        generate(5, goal="terminals")
    for seed in (-1, 1.5, 2**63):
        with pytest.raises(InputError, match="seed"):
            generate(5, seed=seed)
    with pytest.raises(InputError, match=r"\[S, 4\]"):
        build(np.ones((5, 4), bool))


def _python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_numba_is_loaded_only_when_a_maze_is_drawn():
    done = _python("import sys, mmrs.envs, mmrs.envs.maze.env; assert 'numba' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_building_a_maze_leaves_the_callers_arrays_alone():
    known = generate(5, "plus", 3)
    walls, portals = known.walls.copy(), known.portals.copy()
    maze = build(walls, portals)
    walls[0, 0] = False
    portals[:] = 0
    assert (maze.walls == known.walls).all()
    assert (maze.portals == known.portals).all()
    assert not maze.walls.flags.writeable


def test_a_maze_that_cannot_be_saved_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        generate(3).save(tmp_path / "taken")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
