"""Maze2D and GridWorld as Gymnasium environments."""

from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import mmrs.envs  # noqa: F401  registers
from mmrs.envs.maze.maze import Maze, generate
from mmrs.envs.maze.render import AGENT, GOAL_COLOR, PORTAL_COLORS, START_COLOR, WALL
from mmrs.errors import InputError

N, S, E, W = range(4)


@pytest.mark.parametrize("mode", [None, "ansi", "rgb_array"])
@pytest.mark.parametrize("name", ["mmrs/Maze2D-v0", "mmrs/GridWorld-v0"])
def test_gymnasium_finds_nothing_to_complain_of(name, mode):
    check_env(gym.make(name, render_mode=mode).unwrapped, skip_render_check=mode is None)


def shortest_path(maze):
    """Actions from the start to the goal."""
    came = {0: None}
    queue = [0]
    for state in queue:
        for action, other in enumerate(maze.next_state[state].tolist()):
            if other not in came:
                came[other] = (state, action)
                queue.append(other)
    path, state = [], maze.goal
    while came[state]:
        state, action = came[state]
        path.append(action)
    return path[::-1]


@pytest.mark.parametrize("goal", ["terminal", "inert"])
def test_rewards_are_those_of_gym_maze(goal):
    env = gym.make("mmrs/Maze2D-v0", size=6, kind="plus", seed=4, goal=goal)
    path = shortest_path(env.unwrapped.maze)
    env.reset(seed=0)
    steps = [env.step(action) for action in path]
    assert all(reward == -0.1 / 36 and not ended for _, reward, ended, _, _ in steps[:-1])
    obs, reward, terminated, truncated, _ = steps[-1]
    assert obs == 35
    assert (reward, terminated) == ((1.0, True) if goal == "terminal" else (-0.1 / 36, False))
    assert not truncated


def test_an_episode_is_truncated_after_ten_times_the_cells():
    env = gym.make("mmrs/Maze2D-v0", size=3, goal="inert")
    env.reset(seed=0)
    flags = [env.step(N)[3] for _ in range(90)]
    assert flags == [False] * 89 + [True]
    env.reset()
    assert not env.step(N)[3]
    short = gym.make("mmrs/Maze2D-v0", size=3, goal="inert", time_limit=2)
    short.reset(seed=0)
    assert [short.step(N)[3] for _ in range(2)] == [False, True]


def test_reaching_the_goal_on_the_last_step_is_terminated_not_truncated():
    maze = generate(4, "perfect", 0, "terminal")
    path = shortest_path(maze)
    env = gym.make("mmrs/Maze2D-v0", maze=maze, time_limit=len(path))
    env.reset(seed=0)
    terminated, truncated = [env.step(action)[2:4] for action in path][-1]
    assert terminated
    assert not truncated


def test_the_maze_stays_and_the_walk_follows_its_table(tmp_path):
    maze = generate(5, "plus", 9)
    maze.save(tmp_path / "maze.json")
    for source in (maze, tmp_path / "maze.json", str(tmp_path / "maze.json")):
        env = gym.make("mmrs/Maze2D-v0", maze=source, goal="inert")
        state, _ = env.reset(seed=1)
        rng = np.random.default_rng(0)
        for action in rng.integers(0, 4, 60):
            expected = maze.next_state[state, action]
            state = env.step(action)[0]
            assert state == expected
        assert env.unwrapped.visits.sum() == 61
    assert isinstance(env.unwrapped.maze, Maze)


def test_visits_live_on_over_episodes_until_they_are_cleared():
    env = gym.make("mmrs/Maze2D-v0", size=3)
    env.reset(seed=0)
    env.reset()
    assert env.unwrapped.visits[0] == 2
    env.reset(options={"clear_visits": True})
    assert env.unwrapped.visits.tolist() == [1] + [0] * 8


def test_text_shows_walls_portals_agent_and_visits():
    maze = generate(6, "plus", 0)
    env = gym.make("mmrs/Maze2D-v0", maze=maze, goal="inert", render_mode="ansi")
    env.reset(seed=0)
    lines = env.render().splitlines()
    assert len(lines) == 13
    assert lines[1][2] == "@"
    assert lines[11][4 * 5 + 2] == "G"
    for cell in range(36):
        row, column = divmod(cell, 6)
        assert (lines[2 * row + 1][4 * column + 4] == "|") == maze.walls[cell, E]
        assert (lines[2 * row + 2][4 * column + 2] == "-") == maze.walls[cell, S]
    for letter, pair in zip("ab", maze.portals.tolist(), strict=True):
        for cell in pair:
            assert lines[2 * (cell // 6) + 1][4 * (cell % 6) + 2] == letter
    ordinary = next(cell for cell in range(1, 35) if cell not in maze.portals)
    env.unwrapped.visits[ordinary] = 50
    row, column = divmod(ordinary, 6)
    assert env.render().splitlines()[2 * row + 1][4 * column + 2] == "#"


def test_pixels_show_walls_portals_goal_agent_and_visits():
    maze = generate(6, "plus", 0)
    env = gym.make("mmrs/Maze2D-v0", maze=maze, goal="inert", render_mode="rgb_array")
    env.reset(seed=0)
    open_way = next(action for action in range(4) if maze.next_state[0, action] != 0)
    env.step(open_way)
    picture = env.render()
    side = picture.shape[0] // 6

    def center(cell):
        row, column = divmod(int(cell), 6)
        return tuple(picture[row * side + side // 2, column * side + side // 2].tolist())

    agent = int(maze.next_state[0, open_way])
    assert center(0) == START_COLOR
    assert center(35) == GOAL_COLOR
    assert center(agent) == AGENT
    free = [cell for cell in maze.portals[1].tolist() if cell != agent]
    assert all(center(cell) == PORTAL_COLORS[1] for cell in free)
    for cell in range(36):
        row, column = divmod(cell, 6)
        edge = picture[row * side + side // 2, column * side + side - 1]
        assert (tuple(edge.tolist()) == WALL) == maze.walls[cell, E]
    unseen = next(c for c in range(1, 35) if not env.unwrapped.visits[c] and c not in maze.portals)
    assert center(unseen) == (255, 255, 255)
    env.unwrapped.visits[unseen] = 9
    picture = env.render()
    red, green, _ = center(unseen)
    assert red > 180
    assert green < 60


@pytest.mark.parametrize(
    "options", [{"size": 1}, {"kind": "round"}, {"goal": "soft"}, {"time_limit": 0}, {"maze": "/nowhere"}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(InputError):
        gym.make("mmrs/Maze2D-v0", **options)


@pytest.mark.parametrize(
    ("actions", "fairness"),
    [
        ([S, S, S, E, N, N, N], [Fraction(n, 16) for n in range(1, 9)]),
        (
            [S, S, S, E, S, N, N],
            [*(Fraction(n, 16) for n in range(1, 6)), Fraction(9, 32), Fraction(49, 144), Fraction(2, 5)],
        ),
    ],
)
def test_gridworld_walks_give_the_fractions_of_the_example_bumps_included(actions, fairness):
    env = gym.make("mmrs/GridWorld-v0")
    env.reset(seed=0)
    visits = env.unwrapped.visits

    def index():
        return Fraction(int(visits.sum()) ** 2, 16 * int((visits**2).sum()))

    seen = [index()]
    for action in actions:
        env.step(action)
        seen.append(index())
    assert seen == fairness
    env.reset()
    assert visits.sum() == 1


def test_gridworld_has_no_walls_inside():
    env = gym.make("mmrs/GridWorld-v0", render_mode="ansi")
    env.reset(seed=0)
    assert env.render().count("|") == 8
    with pytest.raises(InputError):
        gym.make("mmrs/GridWorld-v0", size=1)


@pytest.mark.parametrize("name", ["mmrs/Maze2D-v0", "mmrs/GridWorld-v0"])
@pytest.mark.parametrize("action", [-1, 4, 7, 1.5, "N", None])
def test_an_invalid_action_is_refused_with_the_range_and_changes_nothing(name, action):
    env = gym.make(name, size=4).unwrapped
    env.reset(seed=0)
    with pytest.raises(InputError, match=f"from 0 to 3.*not {action!r}"):
        env.step(action)
    assert env.visits.sum() == 1
    for good in (2, np.int64(2), np.array(2)):
        assert env.step(good)[0] in range(16)
