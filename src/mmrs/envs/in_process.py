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

    Args:
        makers: One function per environment that makes it.
        first_index: Number of environment 0 in the run, for messages.
    """

    def __init__(self, makers: Sequence[Callable[[], gym.Env[Any, Any]]], first_index: int = 0) -> None:
        self._envs = [make() for make in makers]
        self.num_envs = len(self._envs)
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        self._shape = (self.num_envs, *(self.observation_space.shape or ()))
        self._dtype = self.observation_space.dtype
        self._first_index = first_index
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
        # Lists first: writing single numbers into arrays costs several times as much.
        reward, terminated, truncated = [], [], []
        final_obs, infos = [], []
        index = 0
        try:
            for index, (env, action) in enumerate(zip(self._envs, self._actions, strict=True)):
                seen, paid, over, cut, info = env.step(action)
                if over or cut:
                    final_obs.append(np.array(seen, self._dtype))  # a copy: resets may reuse the memory
                    infos.append(reported_numbers(info))
                    seen, _ = env.reset()
                obs[index] = seen
                reward.append(paid)
                terminated.append(over)
                truncated.append(cut)
        except Exception as error:
            raise self._fault(index, error) from error
        ended, cut_off = np.array(terminated, bool), np.array(truncated, bool)
        done = ended | cut_off
        last = np.array(final_obs) if final_obs else obs[:0]
        return RawStep(obs, np.array(reward, np.float64), ended, cut_off, done, done, last, infos)

    def render(self) -> Values:
        """Picture of environment 0."""
        try:
            frame = self._envs[0].render()
        except (gym.error.DependencyNotInstalled, ImportError) as error:
            # Most simulators step without what draws them, so nobody missed it before.
            raise InputError(f"The environment needs something to draw that is not installed: {error}") from error
        except Exception as error:
            raise self._fault(0, error) from error
        return picture(frame)

    def close(self) -> None:
        """Close every environment."""
        for env in self._envs:
            env.close()

    def _guarded(self, index: int, method: str, **arguments: Any) -> Any:
        try:
            return getattr(self._envs[index], method)(**arguments)
        except Exception as error:
            raise self._fault(index, error) from error

    def _fault(self, index: int, error: Exception) -> EnvironmentFault:
        return EnvironmentFault(f"Environment {self._first_index + index} raised {type(error).__name__}: {error}")


def picture(frame: Any) -> Values:
    """A rendered frame as ``[H, W, 3]`` uint8."""
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise InputError("This environment draws no picture. Make it with render=True; some have nothing to draw.")
    return frame.astype(np.uint8, copy=False)
