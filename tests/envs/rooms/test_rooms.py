"""The room worlds: rules and counts of the reference, and the compiled worlds equal to it step for step."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import mmrs.envs  # noqa: F401  registers
from mmrs.envs.rooms.maps import (
    CELLS,
    GOAL,
    PASSAGES,
    START,
    WALL,
    WORLDS,
    Stream,
    key_rooms,
    move,
    multi_rooms,
    reachable,
    reachable_states,
)
from mmrs.envs.rooms.render import AGENT_COLOR, BLOCK, GOAL_COLOR, KEY_COLOR, WALL_COLOR
from mmrs.errors import InputError
from mmrs.spaces import observation_spec

NAMES = list(WORLDS)
N, S, E, W, REDRAW = range(5)
KINDS = ("features", "image")


def shortest_path(grid):
    """Actions from the start to the goal, through key and door."""
    came, queue = {(START, 0): None}, [(START, 0)]
    for state in queue:
        if grid[state[0]] == GOAL:
            break
        for action in range(4):
            other = move(grid, *state, action)
            if other not in came:
                came[other] = (state, action)
                queue.append(other)
    path = []
    while came[state]:
        state, action = came[state]
        path.append(action)
    return path[::-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_finds_nothing_to_complain_of(name, kind):
    check_env(gym.make(f"mmrs/{name}-v0", obs_type=kind, render_mode="rgb_array").unwrapped)
    spec = observation_spec(gym.make(f"mmrs/{name}-v0", obs_type=kind).observation_space)
    assert spec.kind == {"features": "vector", "image": "image"}[kind]


def test_true_states_are_counted_by_search():
    assert {name: reachable(world) for name, world in WORLDS.items()} == {
        "KeyRooms": (166, 166), "MultiRooms": (89, 93), "NoisyTV": (166, 166),
    }  # fmt: skip
    grids = [multi_rooms(Stream(seed)) for seed in range(200)]
    assert all(len(reachable_states(grid)) == 89 for grid in grids)
    assert {int(c) for grid in grids for c in np.flatnonzero(grid != WALL)} >= set(PASSAGES)  # each is open somewhere


def test_the_shortest_way_fetches_the_key_first_and_is_paid_at_the_goal_alone():
    path = shortest_path(key_rooms())
    assert len(path) == 38
    env = gym.make("mmrs/KeyRooms-v0")
    env.reset(seed=0)
    steps = [env.step(action) for action in path]
    assert [reward for _, reward, *_ in steps] == [0.0] * 37 + [1.0]
    *_, terminated, truncated, info = steps[-1]
    assert (terminated, truncated, info["success"]) == (True, False, True)
    assert info["states"] == info["visited"] == 39  # no true state twice, though cells are: the key makes them others
    with pytest.raises(InputError, match=r"call reset\(\)"):
        env.unwrapped.step(N)


def test_the_door_is_shut_without_the_key():
    env = gym.make("mmrs/KeyRooms-v0").unwrapped
    env.reset(seed=0)
    to_door = [E] * 8 + [S] * 4 + [W] * 2  # through rooms two, three and four, past the key
    seen = [env.step(action)[0].argmax() for action in to_door]
    assert seen[-2] == seen[-1] == 6 * 13 + 9
    back_for_the_key = [E, N, N, N, N, E, N]
    for action in back_for_the_key:
        obs, *_ = env.step(action)
    assert obs.argmax() == 1 * 13 + 11
    for action in [S, W, S, S, S, S, W, W]:
        obs, *_ = env.step(action)
    assert obs.argmax() == 6 * 13 + 8


def test_an_episode_is_truncated_after_200_steps_and_visits_are_kept():
    env = gym.make("mmrs/KeyRooms-v0").unwrapped
    env.reset(seed=0)
    flags = [env.step([E, W][i % 2])[3] for i in range(200)]
    assert flags == [False] * 199 + [True]
    assert env.reset()[1] == {"success": False, "states": 1, "reachable": 166, "visited": 2, "coverage": 2 / 166}
    env.step(N)
    assert env.visits.sum() == 203
    assert env.reset(seed=0)[1]["visited"] == 1  # a seeded reset forgets


def test_multi_rooms_draws_a_new_map_each_episode_and_the_same_for_the_same_seed():
    env = gym.make("mmrs/MultiRooms-v0").unwrapped
    env.reset(seed=3)
    first = env.grid.copy()
    env.reset()
    assert not np.array_equal(env.grid, first)
    env.reset(seed=3)
    assert np.array_equal(env.grid, first)
    for seed in range(20):
        env.reset(seed=seed)
        path = shortest_path(env.grid)
        assert len(path) >= 12  # the farthest room is never next door
        rewards = [env.step(action)[1] for action in path]
        assert rewards == [0.0] * (len(path) - 1) + [1.0]


def test_only_the_fifth_action_redraws_the_noise():
    env = gym.make("mmrs/NoisyTV-v0").unwrapped
    obs, _ = env.reset(seed=0)
    assert not obs[CELLS:].any()
    seen = {env.step(REDRAW)[0][CELLS:].tobytes() for _ in range(50)}
    assert len(seen) > 45
    noise = env.step(REDRAW)[0][CELLS:]
    assert np.array_equal(env.step(E)[0][CELLS:], noise)
    image = gym.make("mmrs/NoisyTV-v0", obs_type="image").unwrapped
    image.reset(seed=0)
    for _ in range(51):
        picture = image.step(REDRAW)[0]
    assert np.array_equal(picture[80, :80:5, 0] / 255, noise)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_worlds_equal_the_reference_step_for_step(name, kind, mode):
    """Observations, rewards, ends and every info, over whole episodes, with walks that reach the goal among them."""
    fast = gym.make_vec(f"mmrs/{name}-v0", num_envs=3, obs_type=kind, autoreset_mode=mode)
    makers = [lambda: gym.make(f"mmrs/{name}-v0", obs_type=kind, disable_env_checker=True)] * 3
    plain = SyncVectorEnv(makers, autoreset_mode=mode)
    assert fast.single_observation_space == plain.single_observation_space
    assert fast.action_space == plain.action_space
    rng = np.random.default_rng(0)
    ends = np.zeros(2, int)
    assert data_equivalence(fast.reset(seed=11), plain.reset(seed=11), exact=True)
    guided: list[int] = []
    for step in range(420 if kind == "features" else 210):
        # Environment 0 walks to the goal again and again, by the reference's map; the others wander.
        walker = plain.envs[0].unwrapped
        if not guided and walker._cell == START and walker._steps == 0:
            guided = shortest_path(walker.grid)
        actions = rng.integers(0, len(WORLDS[name].actions), 3)
        actions[0] = guided.pop(0) if guided else actions[0]
        ours, theirs = fast.step(actions), plain.step(actions)
        assert data_equivalence(ours, theirs, exact=True), step
        ended = theirs[2] | theirs[3]
        ends += theirs[2].sum(), theirs[3].sum()
        if mode == AutoresetMode.DISABLED and ended.any():
            with pytest.raises(InputError, match=f"environment {np.flatnonzero(ended)[0]} is over"):
                fast.step(actions)
            again = [env.reset(options={"reset_mask": ended.copy()}) for env in (fast, plain)]
            assert data_equivalence(*again, exact=True)
    assert ends[0] > 3
    assert ends[1] > 1


def test_what_a_step_returned_is_never_overwritten():
    env = gym.make_vec("mmrs/KeyRooms-v0", num_envs=2, autoreset_mode="SameStep")
    env.reset(seed=0)
    for _ in range(199):
        kept = env.step(np.array([E, W]))
    copy = [np.array(part) for part in kept[:4]] + [dict(kept[4])]
    last = env.step(np.array([E, E]))
    final = last[4]["final_obs"][0].copy()
    for _ in range(250):
        env.step(np.array([S, N]))
    assert data_equivalence(list(kept), copy)
    assert np.array_equal(last[4]["final_obs"][0], final)


def test_what_a_step_returned_may_be_written_to():
    envs = [gym.make_vec("mmrs/KeyRooms-v0", num_envs=2) for _ in range(2)]
    for step in range(3):
        ours, theirs = (env.step(np.array([E, S])) if step else env.reset(seed=0) for env in envs)
        assert data_equivalence(ours, theirs, exact=True)
        for part in ours[-1].values():
            part[:] = 0


@pytest.mark.parametrize("actions", [[0, 4], [-1, 0], [0], [[0, 1]], [0.0, 1.0]])
def test_invalid_actions_are_refused_and_change_nothing(actions):
    env = gym.make_vec("mmrs/KeyRooms-v0", num_envs=2)
    with pytest.raises(InputError, match="reset"):
        env.step(np.array([0, 0]))
    env.reset(seed=0)
    before = env.rows.copy()
    with pytest.raises(InputError, match="action"):
        env.step(np.array(actions))
    assert np.array_equal(env.rows, before)


def test_bad_options_are_refused():
    for options in ({"obs_type": "picture"}, {"world": "KeyRoom"}):
        with pytest.raises(InputError, match=r"Did you mean|Known"):
            gym.make("mmrs/KeyRooms-v0", **options)
        with pytest.raises(InputError, match=r"Did you mean|Known"):
            gym.make_vec("mmrs/KeyRooms-v0", num_envs=2, **options)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_show_walls_goal_key_and_agent_alike_in_both(name):
    single = gym.make(f"mmrs/{name}-v0", render_mode="rgb_array")
    many = gym.make_vec(f"mmrs/{name}-v0", num_envs=2, render_mode="rgb_array")
    single.reset(seed=5)
    many.reset(seed=5)
    for action in (E, E, E):
        single.step(action)
        many.step(np.array([action, N]))
    picture = single.render()
    assert np.array_equal(picture, many.render()[0])
    assert picture.dtype == np.uint8
    colors = {tuple(c) for c in picture[BLOCK // 2 :: BLOCK, BLOCK // 2 :: BLOCK].reshape(-1, 3).tolist()}
    assert {WALL_COLOR, AGENT_COLOR} <= colors
    if name != "MultiRooms":
        assert {KEY_COLOR, GOAL_COLOR} <= colors
