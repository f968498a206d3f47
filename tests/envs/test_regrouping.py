"""State saved with one grouping of the environments is restored with another, and continues to the bit."""

from itertools import chain

import numpy as np
import pytest
from tests.support.envs import random_actions
from tests.support.tracing import column

from mmrs.envs.action_log import ActionLog
from mmrs.envs.atari import AtariEnvs
from mmrs.envs.registry import make_envs
from mmrs.errors import EnvError

ENVS, STEPS, AFTER = 4, 250, 50
MAKERS = {
    "atari": lambda n, i: AtariEnvs("Breakout", n, sticky=0.25, reseed_every=60, first_index=i),
    "cartpole": lambda n, i: make_envs("CartPole-v1", n, reseed_every=30, first_index=i),
    "pendulum": lambda n, i: make_envs("Pendulum-v1", n, reseed_every=30, first_index=i),
    "rooms": lambda n, i: make_envs("mmrs/MultiRooms-v0", n, first_index=i),
}


def grouped(kind, groups):
    size = ENVS // groups
    return [MAKERS[kind](size, i * size) for i in range(groups)]


def step(groups, row):
    return [envs.step(part) for envs, part in zip(groups, np.split(row, len(groups)), strict=True)]


def shown(steps):
    return {name: np.concatenate([getattr(s, name) for s in steps]) for name in ("obs", "reward", "terminated")}


def close(*groups):
    for envs in chain(*groups):
        envs.close()


@pytest.mark.parametrize(("before", "after"), [(4, 1), (1, 2), (2, 4)])
@pytest.mark.parametrize("kind", MAKERS)
def test_any_number_of_groups_continues_from_any_other(kind, before, after):
    old, new = grouped(kind, before), grouped(kind, after)
    obs = np.concatenate([envs.reset(3) for envs in old])
    actions = random_actions(MAKERS[kind](ENVS, 0), STEPS + AFTER)
    for row in actions[:STEPS]:
        obs = shown(step(old, row))["obs"]
    state = [one for envs in old for one in envs.state()]
    if kind in ("atari", "cartpole"):
        assert len(set(column(state, "since"))) > 1  # else logs of unequal length were not tried
    size = ENVS // after
    seen = [envs.restore(state[i * size : (i + 1) * size]) for i, envs in enumerate(new)]
    np.testing.assert_array_equal(np.concatenate(seen), obs)
    for row in actions[STEPS:]:
        a, b = shown(step(old, row)), shown(step(new, row))
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    np.testing.assert_equal([one for e in new for one in e.state()], [one for e in old for one in e.state()])
    close(old, new)


def test_what_another_environment_shows_is_noticed():
    old, new = grouped("cartpole", 2), grouped("cartpole", 1)
    for envs in old:
        envs.reset(3)
    for row in random_actions(old[0], 40).repeat(2, 1):
        step(old, row)
    first, second = (envs.state() for envs in old)
    with pytest.raises(EnvError, match="did not reach the same state"):
        new[0].restore([*second, *first])
    state = [*first, *second]
    state[3]["observation"] = state[2]["observation"]
    with pytest.raises(EnvError, match=r"\(observation differ\)"):
        new[0].restore(state)


def test_until_its_own_actions_begin_an_environment_takes_allowed_ones():
    log = ActionLog((3, 1), np.dtype(np.float32))
    own = [np.full((length, 1), i + 1.0, np.float32) for i, length in enumerate((2, 4, 0))]
    rows = log.load(own, 10)
    np.testing.assert_array_equal(rows[..., 0], [[2, 2, 2], [2, 2, 2], [1, 2, 2], [1, 2, 2]])
    np.testing.assert_array_equal(log.since(8), rows[2:])
    log.append(np.full((3, 1), 5.0), np.array([8, 6, 10]))
    assert log.steps == 11
    np.testing.assert_array_equal(log.since(10)[..., 0], [[5, 5, 5]])
