"""Any Gymnasium environment by its id, with the usual wrappers for image observations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import wrappers

from mmrs.envs.async_envs import AsyncBackend
from mmrs.envs.base import BackendStep, Values, VectorBackend, check_spaces, picture, reported_scalars
from mmrs.envs.replay import ReplayedEnvs
from mmrs.errors import EnvError, InputError, MissingExtraError, MmrsError, ensure_period
from mmrs.spaces import observation_spec

Vectorization = Literal["sync", "async"]
RESEED_EVERY = 10_000
"""Steps between seeded resets, which cost no more than other resets here; replay then takes seconds."""


def make_single(env_id: str, *, render: bool = False, warmup_reset: bool = False) -> gym.Env[Any, Any]:
    """One environment, ready for a backend.

    Args:
        env_id: Gymnasium id.
        render: Whether `render` must work.
        warmup_reset: Reset it once and discard the result, for simulators whose first reset differs from later ones.
    """
    # Some environments take no render_mode, not even None.
    drawing: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    try:
        env = gym.make(env_id, disable_env_checker=True, **drawing)
    except MmrsError:
        raise  # one of our own environments, whose message is clear
    except (gym.error.Error, ImportError) as error:
        missing = isinstance(error, gym.error.DependencyNotInstalled | ModuleNotFoundError)
        why = "needs something that is not installed" if missing else "cannot be made"
        raise InputError(f"{env_id} {why}: {ensure_period(error)} `mmrs list` shows other environments.") from error
    except TypeError as error:
        if not render:
            raise
        raise InputError(f"{env_id} draws no pictures: {error}.") from error
    check_spaces(env_id, env.observation_space, env.action_space)
    try:
        env = _image_wrappers(env)
        if warmup_reset:
            env.reset()
    except BaseException:
        env.close()
        raise
    return env


def _image_wrappers(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Convert single images, RGB or gray, to 84x84 gray with the last four frames stacked.

    If the channels come first, the frames are taken as stacked already.
    """
    spec = observation_spec(env.observation_space)
    rgb = spec.channels_last and spec.channels == 3 and len(spec.shape) == 3
    if spec.kind != "image" or not (rgb or spec.channels == 1):
        return env
    try:
        import cv2  # noqa: F401, PLC0415 - ResizeObservation would fail late and name another package
    except ImportError:
        raise MissingExtraError("opencv", "images") from None
    gray = wrappers.GrayscaleObservation(env) if rgb else wrappers.ReshapeObservation(env, spec.image_size)
    return wrappers.FrameStackObservation(wrappers.ResizeObservation(gray, (84, 84)), 4)


def has_image_obs(env_id: str) -> bool:
    """Whether observations are images; the environment is made and closed to find out."""
    env = make_single(env_id)
    env.close()
    return observation_spec(env.observation_space).kind == "image"


def make_backend(
    maker: Callable[[], gym.Env[Any, Any]],
    num_envs: int,
    vectorization: Vectorization,
    step_timeout: float,
    first_index: int,
) -> VectorBackend:
    """N environments in this process, or in one worker each."""
    if vectorization not in ("sync", "async"):
        raise InputError(f"vectorization is {vectorization!r}, expected 'sync' or 'async'.")
    makers = [maker] * num_envs
    if vectorization == "sync":
        return SyncBackend(makers, first_index)
    return AsyncBackend(makers, step_timeout, first_index)


class GymEnvs(ReplayedEnvs):
    """N copies of any Gymnasium environment with Box or Discrete observations, each made by `make(env_id)`.

    They step in this process by default; pybullet's lock would make threads useless.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        *,
        make: Callable[..., gym.Env[Any, Any]],
        vectorization: Vectorization = "sync",
        step_timeout: float = 30.0,
        reseed_every: int | None = None,
        first_index: int = 0,
        render: bool = False,
    ) -> None:
        maker = functools.partial(make, env_id, render=render)
        backend = make_backend(maker, num_envs, vectorization, step_timeout, first_index)
        super().__init__(backend, reseed_every=reseed_every or RESEED_EVERY, first_index=first_index)


class SyncBackend:
    """`gymnasium.vector.SyncVectorEnv` under SAME_STEP, without its copies and without merging info dictionaries.

    On InvertedPendulumBulletEnv-v0 that bookkeeping took a fifth of the time of the physics.

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
        """Keep the actions; `recv` does the work."""
        self._actions = actions

    def recv(self) -> BackendStep:
        """Step every environment, and restart those that ended."""
        obs = np.empty(self._shape, self._dtype)
        # Lists first: writing scalars into arrays is several times slower.
        reward, terminated, truncated = [], [], []
        final_obs, infos = [], []
        index = 0
        try:
            for index, (env, action) in enumerate(zip(self._envs, self._actions, strict=True)):
                seen, paid, over, cut, info = env.step(action)
                if over or cut:
                    final_obs.append(np.array(seen, self._dtype))  # a copy: resets may reuse the memory
                    infos.append(reported_scalars(info))
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
        return BackendStep(obs, np.array(reward, np.float64), ended, cut_off, done, done, last, infos)

    def render(self) -> Values:
        """Picture of environment 0."""
        try:
            frame = self._envs[0].render()
        except (gym.error.DependencyNotInstalled, ImportError) as error:
            # Most simulators step without their drawing package, so that it may be missing until now.
            raise InputError(f"To draw, the environment needs a package that is not installed: {error}") from error
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

    def _fault(self, index: int, error: Exception) -> EnvError:
        return EnvError(f"Environment {self._first_index + index} raised {type(error).__name__}: {error}")
