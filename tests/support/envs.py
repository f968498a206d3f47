"""Environments for tests: scripted ones, ones with image observations, and ones that raise, hang or die."""

from __future__ import annotations

import os
import signal
import time
from functools import partial

import gymnasium as gym
import numpy as np

from mmrs.envs.gym_envs import GymEnvs


class Troubled(gym.Env):
    """Fails by action: 1 raises, 2 hangs, 3 dies, 4 hangs and ignores SIGTERM."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if action == 1:
            raise ValueError("the wheel came off")
        if action == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == 4:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if action in (2, 4):
            time.sleep(600)
        return np.zeros(1, np.float32), 0.0, False, False, {}


class Slow(Troubled):
    """Takes a tenth of a second per unit of the action."""

    def step(self, action):
        time.sleep(0.1 * int(action))
        return np.zeros(1, np.float32), float(action), False, False, {}


class Busy(Troubled):
    """Takes 0.3 s of processor time per step."""

    def step(self, action):
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        return super().step(0)


class Endless(Troubled):
    """Never returns from a step."""

    def step(self, action):
        while True:
            time.sleep(1)


def of(kind, first_index=0):
    return partial(GymEnvs, "Troubled", 1, make=lambda *_, **__: kind(), first_index=first_index)


class Scripted(gym.Env):
    """Ends every third step: terminated with success if the action is 1, else truncated."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, spoil=None, **spaces):
        self.spoil, self.t = spoil or {}, 0
        self.render_mode = None
        vars(self).update(spaces)
        self.seen = np.zeros(2, np.float32)  # always the same array: callers must copy it

    def reset(self, *, seed=None, options=None):
        self.t = 0
        self.seen[:] = 0
        return self.seen, {}

    def step(self, action):
        self.t += 1
        self.seen[:] = self.t
        self.seen[1] = self.spoil.get("obs", 0) if self.t == self.spoil.get("at", 2) else 0
        reward = self.spoil.get("reward", 1.5)
        end = self.t == 3
        return self.seen, reward, end and action == 1, end and action == 0, {"success": bool(action), "name": "x"}


class Pictures(Scripted):
    def __init__(self, shape=(96, 60, 3), **_):
        super().__init__(observation_space=gym.spaces.Box(0, 255, shape, np.uint8))

    def reset(self, *, seed=None, options=None):
        super().reset()
        return np.zeros(self.observation_space.shape, np.uint8), {}

    def step(self, action):
        _, *rest = super().step(action)
        return np.full(self.observation_space.shape, 50 * self.t, np.uint8), *rest


def register_pictures(env_id="CarPictures-v0", shape=(96, 60, 3)):
    if env_id not in gym.registry:
        gym.register(env_id, Pictures, kwargs={"shape": shape})
    return env_id


def random_actions(envs, steps, seed=0):
    space = envs.action_space
    space.seed(seed)
    return np.array([[space.sample() for _ in range(envs.num_envs)] for _ in range(steps)], space.dtype)
