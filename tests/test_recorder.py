"""The recorder under all three autoreset modes, on an environment that observes its episode and step."""

from functools import partial
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import mmrs
from mmrs.errors import InputError

LAST = 1000.0


class Counter(gym.Env):
    """Observes (environment, episode, step); ends after 1 to 4 steps, by terminating or by truncating."""

    observation_space = gym.spaces.Box(0, LAST, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, number):
        self.number, self.episode, self.t = number, -1, 0
        self.rng = np.random.default_rng(number)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        self.length, self.terminates = int(self.rng.integers(1, 5)), bool(self.rng.integers(2))
        return self._obs(), {}

    def _obs(self):
        return np.array([self.number, self.episode, self.t], np.float32)

    def step(self, action):
        self.t += 1
        end = self.t >= self.length
        return self._obs(), 0.0, end and self.terminates, end and not self.terminates, {}


def make_envs(mode, vector=SyncVectorEnv, count=3, **options):
    return vector([partial(Counter, n) for n in range(count)], autoreset_mode=mode, **options)


def record(mode, lengths, vector=SyncVectorEnv):
    """Rollouts of these lengths, from one run of the environments."""
    envs = make_envs(mode, vector)
    recorder = mmrs.RolloutRecorder(envs.metadata["autoreset_mode"])
    recorder.reset(envs.reset(seed=0)[0])
    rollouts = []
    for length in lengths:
        for _ in range(length):
            actions = envs.action_space.sample()
            obs, _, terminated, truncated, info = envs.step(actions)
            recorder.add(actions, obs, terminated, truncated, info)
            obs[:] = -1  # a vector environment may reuse its buffer
            ended = terminated | truncated
            if mode is AutoresetMode.DISABLED and ended.any():
                recorder.reset(envs.reset(options={"reset_mask": ended})[0], mask=ended)
        rollouts.append(recorder.rollout())
    envs.close()
    return rollouts


def transitions(rollouts):
    """Valid transitions of each environment in order: (episode, step before, step after, terminated, truncated)."""
    found = {}
    for rollout in rollouts:
        before, after = rollout.map_pairs(lambda states: states)
        for t, e in rollout.valid.nonzero().tolist():
            number, episode, step = before[t, e].tolist()
            assert number == e
            assert after[t, e].tolist()[:2] == [number, episode], "a transition must stay in its episode"
            flags = bool(rollout.terminated[t, e]), bool(rollout.truncated[t, e])
            found.setdefault(e, []).append((episode, step, after[t, e, 2].item(), *flags))
    return found


@pytest.mark.parametrize("mode", AutoresetMode)
def test_every_transition_is_true_and_none_is_lost(mode):
    found = transitions(record(mode, [40]))
    assert sorted(found) == [0, 1, 2]
    for steps in found.values():
        for (episode, before, after, terminated, truncated), following in pairwise(steps):
            assert after == before + 1
            ended = terminated or truncated
            assert following[:2] == ((episode + 1, 0) if ended else (episode, after))
        assert any(s[3] for s in steps)
        assert any(s[4] for s in steps)


def test_the_modes_agree_on_what_happened():
    runs = [transitions(record(mode, [60])) for mode in AutoresetMode]
    for e in range(3):
        shortest = min(len(run[e]) for run in runs)
        assert shortest > 20
        assert runs[0][e][:shortest] == runs[1][e][:shortest] == runs[2][e][:shortest]


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("lengths", [[1] * 24, [3, 1, 7, 13], [23, 1]])
def test_cutting_anywhere_gives_the_same_transitions(mode, lengths):
    assert transitions(record(mode, lengths)) == transitions(record(mode, [24]))


@pytest.mark.parametrize("mode", AutoresetMode)
def test_dummy_steps_are_marked_under_next_step_alone(mode):
    (rollout,) = record(mode, [40])
    assert (~rollout.valid).any() == (mode is AutoresetMode.NEXT_STEP)
    if mode is AutoresetMode.NEXT_STEP:
        assert torch.equal(~rollout.valid[1:], rollout.done[:-1])
        assert not (rollout.terminated | rollout.truncated)[~rollout.valid].any()


@pytest.mark.parametrize("mode", AutoresetMode)
def test_an_asynchronous_environment_is_recorded_alike(mode):
    found = transitions(record(mode, [9, 8], partial(AsyncVectorEnv, context="fork")))
    assert found == transitions(record(mode, [9, 8]))


def test_counts_agree_under_every_mode():
    space = gym.spaces.Discrete(4)

    class Numbered(gym.ObservationWrapper):
        observation_space = space

        def observation(self, obs):
            return int(obs[2]) % 4

    sums = []
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        envs = SyncVectorEnv([lambda n=n: Numbered(Counter(n)) for n in range(2)], autoreset_mode=mode)
        recorder = mmrs.RolloutRecorder(mode)
        recorder.reset(envs.reset(seed=0)[0])
        while len(recorder._actions) < 60:
            actions = envs.action_space.sample()
            obs, _, *flags, info = envs.step(actions)
            recorder.add(actions, obs, *flags, info)
        rollout = recorder.rollout()
        reward, _ = mmrs.make("jfi", space, envs.single_action_space).compute(rollout)
        sums.append([reward[:, e][rollout.valid[:, e]][:20].tolist() for e in range(2)])
    assert sums[0] == sums[1]


# --- by hand ----------------------------------------------------------------------------------------------------------


def flags(*values):
    return np.array(values, bool)


def test_a_masked_reset_keeps_the_true_last_state():
    recorder = mmrs.RolloutRecorder(AutoresetMode.DISABLED)
    recorder.reset(np.array([[0.0], [10.0]]))
    recorder.add(np.zeros(2), np.array([[1.0], [11.0]]), flags(1, 0), flags(0, 0))
    recorder.reset(np.array([[5.0], [99.0]]), mask=flags(1, 0))
    assert recorder.obs.tolist() == [[5.0], [11.0]]
    recorder.add(np.zeros(2), np.array([[6.0], [12.0]]), flags(0, 0), flags(0, 0))
    rollout = recorder.rollout()
    assert rollout.valid.all()
    assert rollout.final_obs.tolist() == [[1.0]]
    before, after = rollout.map_pairs(lambda s: s.squeeze(1))
    assert before.tolist() == [[0.0, 10.0], [5.0, 11.0]]
    assert after.tolist() == [[1.0, 11.0], [6.0, 12.0]]


def test_a_masked_reset_after_the_rollout_was_returned_leaves_that_rollout_alone():
    recorder = mmrs.RolloutRecorder(AutoresetMode.DISABLED)
    recorder.reset(np.array([[0.0]]))
    recorder.add(np.zeros(1), np.array([[1.0]]), flags(0), flags(1))
    first = recorder.rollout()
    recorder.reset(np.array([[7.0]]), mask=flags(1))
    recorder.add(np.zeros(1), np.array([[8.0]]), flags(0), flags(0))
    second = recorder.rollout()
    assert first.obs.flatten().tolist() == [0.0, 1.0]
    assert second.obs.flatten().tolist() == [7.0, 8.0]


def test_steps_without_a_reset_are_not_valid_under_disabled():
    recorder = mmrs.RolloutRecorder("Disabled")
    recorder.reset(np.array([[0.0]]))
    for x, end in ((1.0, 1), (1.0, 1), (1.0, 0)):
        recorder.add(np.zeros(1), np.array([[x]]), flags(end), flags(0))
    rollout = recorder.rollout()
    assert rollout.valid.flatten().tolist() == [True, False, False]
    assert rollout.final_obs.flatten().tolist() == [1.0]


def test_what_cannot_be_recorded_is_refused_and_nothing_is_lost():
    recorder = mmrs.RolloutRecorder(AutoresetMode.SAME_STEP)
    with pytest.raises(InputError, match="reset"):
        _ = recorder.obs
    with pytest.raises(InputError, match="reset"):
        recorder.reset(np.zeros((1, 1)), mask=flags(1))
    with pytest.raises(InputError, match="reset"):
        recorder.add(np.zeros(1), np.zeros((1, 1)), flags(0), flags(0))
    recorder.reset(np.zeros((2, 1)))
    with pytest.raises(InputError, match="no steps"):
        recorder.rollout()
    with pytest.raises(InputError, match=r"\(2, 3\), expected \(2, 1\)"):
        recorder.add(np.zeros(2), np.zeros((2, 3)), flags(0, 0), flags(0, 0))
    with pytest.raises(InputError, match=r"environments \[1\] ended.*final_obs"):
        recorder.add(np.zeros(2), np.ones((2, 1)), flags(0, 1), flags(0, 0), {})
    with pytest.raises(InputError, match=r"environments \[0\].*middle"):
        recorder.reset(np.ones((2, 1)), mask=flags(1, 0))
    with pytest.raises(InputError, match="mask of shape"):
        recorder.reset(np.ones((2, 1)), mask=flags(1))
    recorder.add(np.zeros(2), np.ones((2, 1)), flags(0, 0), flags(0, 0), {})
    assert recorder.rollout().obs.flatten().tolist() == [0.0, 0.0, 1.0, 1.0]


def test_unknown_modes_are_refused_and_names_are_accepted():
    with pytest.raises(InputError, match="NextStep"):
        mmrs.RolloutRecorder("Sometimes")
    assert mmrs.RolloutRecorder("NextStep").mode is AutoresetMode.NEXT_STEP
