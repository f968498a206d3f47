"""RLlib: unusual episodes and names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray and its imports warn about themselves
pytest.importorskip("ray")

from ray.rllib.env.single_agent_episode import SingleAgentEpisode  # noqa: E402
from tests.support.adapter_worlds import Reached, line  # noqa: E402
from tests.support.rllib import learner, ppo, same_state, walks  # noqa: E402

import mmrs  # noqa: E402
from mmrs.adapters.rllib import with_bonus  # noqa: E402
from mmrs.errors import InputError  # noqa: E402
from mmrs.rewards import REWARDS  # noqa: E402


def test_episodes_without_a_step_change_nothing() -> None:
    one, other = (learner(with_bonus(ppo(), "ride")) for _ in range(2))
    empty = SingleAgentEpisode(id_="empty", observation_space=line().observation_space)
    empty.add_env_reset(line().reset()[0])
    episodes, twin = walks(), walks()
    one.bonus(episodes=[empty.to_numpy(), *episodes], batch={})
    other.bonus(episodes=twin, batch={})
    other.bonus(episodes=[], batch={})
    for left, right in zip(episodes, twin, strict=True):
        np.testing.assert_array_equal(left.get_rewards(), right.get_rewards())
    assert same_state(one.bonus, other.bonus)


def test_a_registered_name_reaches_learners_that_do_not_know_it() -> None:
    mmrs.register("reached", Reached)
    config = with_bonus(ppo(), "reached")
    del REWARDS["reached"]  # as in another process
    assert isinstance(learner(config).bonus.reward_host.reward, Reached)
    assert isinstance(learner(with_bonus(ppo(), "rnd")).bonus.reward_host.reward, type(mmrs.make("rnd", *spaces())))


def spaces() -> tuple[Any, Any]:
    return line().observation_space, line().action_space


def test_an_unknown_name_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="Did you mean"):
        with_bonus(ppo(), "rndd")
