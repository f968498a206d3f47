"""The room worlds as training environments: true last states, reports of episodes, exact restore without replay."""

import gymnasium as gym
import numpy as np
import pytest

from mmrs.envs.registry import family, make_envs
from mmrs.envs.rooms.maps import WORLDS
from mmrs.errors import InputError

IDS = [f"mmrs/{name}-v0" for name in WORLDS]


def walk(envs, steps, seed):
    rng = np.random.default_rng(seed)
    return [envs.step(rng.integers(0, envs.action_space.n, envs.num_envs)) for _ in range(steps)]


def assert_same_steps(a, b):
    for x, y in zip(a, b, strict=True):
        for name in ("obs", "reward", "terminated", "truncated", "final_obs"):
            assert np.array_equal(getattr(x, name), getattr(y, name)), name
        assert x.episodes == y.episodes


@pytest.mark.parametrize("kind", ["features", "image"])
@pytest.mark.parametrize("name", IDS)
def test_restored_environments_continue_as_if_never_stopped(name, kind):
    assert family(name) == "rooms"
    envs = make_envs(name, 3, obs_type=kind)
    envs.reset(7)
    before = walk(envs, 150, 0)
    state = envs.state()
    later = walk(envs, 260, 1)
    other = make_envs(name, 3, obs_type=kind)
    assert np.array_equal(other.restore(state), before[-1].obs)
    assert_same_steps(walk(other, 260, 1), later)
    assert np.array_equal(other.visits, envs.visits)
    with pytest.raises(InputError, match="shape"):
        make_envs(name, 2, obs_type=kind).restore(state)
    with pytest.raises(InputError, match="is of"):
        make_envs(next(i for i in IDS if i != name), 3).restore(state)


def test_two_halves_step_like_the_whole_and_seeds_differ():
    whole, first, second = (make_envs("mmrs/MultiRooms-v0", n, first_index=i) for n, i in ((4, 0), (2, 0), (2, 2)))
    obs = whole.reset(1)
    assert np.array_equal(obs, np.concatenate([first.reset(1), second.reset(1)]))
    actions = np.random.default_rng(0).integers(0, 4, (230, 4))
    for row in actions:
        step = whole.step(row)
        parts = first.step(row[:2]), second.step(row[2:])
        assert np.array_equal(step.obs, np.concatenate([part.obs for part in parts]))
    assert len({obs.tobytes() for obs in step.obs}) > 1


def test_an_episode_reports_its_return_its_states_and_the_coverage_of_all():
    envs = make_envs("mmrs/KeyRooms-v0", 2)
    envs.reset(0)
    steps = [envs.step(np.array([2, 3])) for _ in range(200)]  # one walks east to the far wall, one west
    assert all(not step.episodes.game_returns for step in steps[:-1])
    last = steps[-1]
    assert last.truncated.all()
    assert last.episodes.game_lengths == [200, 200]
    assert last.episodes.game_returns == last.episodes.episode_returns == [0.0, 0.0]
    assert [info["states"] for info in last.episodes.infos] == [10.0, 2.0]
    assert last.episodes.infos[0]["coverage"] == pytest.approx(11 / 166)
    assert last.final_obs[0].argmax() == 2 * 13 + 11
    assert last.obs[0].argmax() == 2 * 13 + 2


def test_misuse_is_refused():
    envs = make_envs("mmrs/KeyRooms-v0", 2)
    with pytest.raises(InputError, match="reset"):
        envs.step(np.zeros(2, int))
    envs.reset(0)
    with pytest.raises(InputError, match="send"):
        envs.recv()
    envs.send(np.zeros(2, int))
    with pytest.raises(InputError, match="recv"):
        envs.send(np.zeros(2, int))
    with pytest.raises(InputError, match="not a room world"):
        make_envs("CartPole-v1", 2, obs_type="image")
    assert envs.recv().obs.shape == (2, 169)
    assert envs.render().shape[2] == 3
    assert gym.spec("mmrs/KeyRooms-v0").vector_entry_point
