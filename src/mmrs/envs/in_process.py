"""Gymnasium environments stepped one after the other in this process: the fastest way for cheap simulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from mmrs.envs.stepping import RawStep, reported_numbers
from mmrs.envs.training import Values
from mmrs.errors import EnvironmentFault, InputError


class InProcessStepper:
    """`gymnasium.vector.SyncVectorEnv` under SAME_STEP, without its copies and without merging info dictionaries.

    On InvertedPendulumBulletEnv-v0 that bookkeeping took as long as a fifth of the physics.
    """

    def __init__(self, makers: Sequence[Callable[[], gym.Env[Any, Any]]]) -> None:
        self._envs = [make() for make in makers]
        self.num_envs = len(self._envs)
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        self._shape = (self.num_envs, *(self.observation_space.shape or ()))
        self._dtype = self.observation_space.dtype
        self._actions: Values = np.empty(0)

    def reset(self, mask: Values, seeds: Values) -> Values:
        """Seeded reset of the environments in the mask."""
        obs = np.empty((len(seeds), *self._shape[1:]), self._dtype)
        for row, (index, seed) in enumerate(zip(np.flatnonzero(mask), seeds, strict=True)):
            obs[row] = self._guarded(int(index), "reset", seed=int(seed))[0]
        return obs

    def send(self, actions: Values) -> None:
        """Keep the actions: there is nobody else to do the work."""
        self._actions = actions

    def recv(self) -> RawStep:
        """Step every environment, and restart those that ended."""
        obs = np.empty(self._shape, self._dtype)
        reward = np.empty(self.num_envs)
        terminated = np.zeros(self.num_envs, bool)
        truncated = np.zeros(self.num_envs, bool)
        final_obs, infos = [], []
        index = 0
        try:
            for index, env in enumerate(self._envs):
                obs[index], reward[index], over, cut, info = env.step(self._actions[index])
                if over or cut:
                    terminated[index], truncated[index] = over, cut
                    final_obs.append(obs[index].copy())
                    infos.append(reported_numbers(info))
                    obs[index] = env.reset()[0]
        except Exception as error:
            raise _fault(index, error) from error
        done = terminated | truncated
        last = np.array(final_obs, self._dtype) if final_obs else obs[:0]
        return RawStep(obs, reward, terminated, truncated, done, last, infos)

    def render(self) -> Values:
        """Picture of environment 0."""
        return picture(self._envs[0].render())

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()

    def _guarded(self, index: int, method: str, **arguments: Any) -> Any:
        try:
            return getattr(self._envs[index], method)(**arguments)
        except Exception as error:
            raise _fault(index, error) from error


def _fault(index: int, error: Exception) -> EnvironmentFault:
    return EnvironmentFault(f"Environment {index} raised {type(error).__name__}: {error}")


def picture(frame: Any) -> Values:
    """A rendered frame as ``[H, W, 3]`` uint8."""
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise InputError("This environment draws no picture. Make it with render=True; some have nothing to draw.")
    return frame.astype(np.uint8, copy=False)
