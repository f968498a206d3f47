"""Any Gymnasium environment by its id, with the usual wrappers for image observations."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import wrappers

from mmrs import plugins
from mmrs.envs.async_envs import AsyncBackend
from mmrs.envs.base import BackendStep, Values, VectorBackend, check_spaces, picture, reported_scalars
from mmrs.envs.family import EnvFamily, EnvOptions
from mmrs.envs.replay import ReplayedEnvs
from mmrs.errors import EnvError, InputError, MissingExtraError, MmrsError, ensure_period
from mmrs.spaces import observation_spec

Vectorization = Literal["sync", "async"]
_NO_DISPLAY = re.compile(r"OpenGL|GLFW|gladLoadGL|\bEGL\b|DISPLAY")
"""Errors of a drawing library that found no display."""
RESEED_EVERY = 10_000
"""Steps between seeded resets, which cost no more than other resets here; replay then takes seconds."""


def make_single(
    env_id: str,
    *,
    render: bool = False,
    kwargs: Mapping[str, Any] | None = None,
    wrappers: Sequence[str] = (),
    warmup_reset: bool = False,
) -> gym.Env[Any, Any]:
    """One environment, ready for a backend.

    Args:
        env_id: Gymnasium id.
        render: Whether `render` must work.
        kwargs: Arguments of its constructor.
        wrappers: Wrappers as ``module:Wrapper``, the innermost first.
        warmup_reset: Reset it once and discard the result, for simulators whose first reset differs from later ones.
    """
    # Some environments take no render_mode, not even None.
    drawing: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    if render and sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame would look for a display and print an error
    given = dict(kwargs or {})
    try:
        env = gym.make(env_id, disable_env_checker=True, **{**drawing, **given})
    except MmrsError:
        raise  # one of our own environments, whose message is clear
    except (gym.error.Error, ImportError) as error:
        missing = isinstance(error, gym.error.DependencyNotInstalled | ModuleNotFoundError)
        why = "needs something that is not installed" if missing else "cannot be made"
        raise InputError(f"{env_id} {why}: {ensure_period(error)} `mmrs list` shows other environments.") from error
    except Exception as error:
        if given:
            raise InputError(f"{env_id} cannot be made with env.kwargs {given}: {ensure_period(error)}") from error
        if render and isinstance(error, TypeError):
            raise InputError(f"{env_id} draws no pictures: {error}.") from error
        raise
    try:
        for wrapper in wrappers:
            env = _wrapped(env, wrapper)
        check_spaces(env_id, env.observation_space, env.action_space)
        env = _image_wrappers(env)
        if warmup_reset:
            env.reset()
    except BaseException:
        env.close()
        raise
    return env


def _wrapped(env: gym.Env[Any, Any], wrapper: str) -> gym.Env[Any, Any]:
    kind = plugins.get_object(wrapper, "wrapper")
    try:
        wrapped = kind(env)
    except Exception as error:
        raise InputError(f"the wrapper {wrapper} raised {type(error).__name__}: {ensure_period(error)}") from error
    if not isinstance(wrapped, gym.Env):
        raise InputError(f"the wrapper {wrapper} returned {type(wrapped).__name__}, expected a gymnasium.Env.")
    return wrapped


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


def has_image_obs(env_id: str, kwargs: Mapping[str, Any] | None = None, wrappers: Sequence[str] = ()) -> bool:
    """Whether observations are images; the environment is made and closed to find out."""
    env = make_single(env_id, kwargs=kwargs, wrappers=wrappers)
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
        **single: Any,
    ) -> None:
        """Args:
        env_id: Gymnasium id.
        num_envs: N.
        make: Function that makes one environment, such as `make_single`.
        vectorization: "sync" or "async".
        step_timeout: Seconds after which a worker that does not answer is an error.
        reseed_every: Steps between seeded resets; None: 10,000.
        first_index: Number of environment 0 in the run.
        **single: Options of `make`.
        """
        maker = plugins.carried(functools.partial(make, env_id, **single))
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
        except NotImplementedError as error:
            spec = self._envs[0].spec
            raise InputError(
                f"{spec.id if spec else 'The environment'} draws no pictures: it has no render()."
            ) from error
        except Exception as error:
            fault = self._fault(0, error)
            hint = " Without a display, MuJoCo draws with MUJOCO_GL=egl or MUJOCO_GL=osmesa in the environment."
            raise EnvError(f"{ensure_period(fault)}{hint}") if _NO_DISPLAY.search(str(error)) else fault from error
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


def _make(env_id: str, num_envs: int, options: EnvOptions) -> GymEnvs:
    return GymEnvs(env_id, num_envs, make=make_single, **options.single, **options.stepping)


GYMNASIUM_FAMILY = EnvFamily(
    name="gymnasium",
    title="Gymnasium",
    # "module:id" is Gymnasium's way to name a module that registers the id when it is imported.
    matches=lambda env_id: env_id.count(":") == 1 or env_id in gym.registry,
    make=_make,
    ids=lambda: gym.registry,
    preset="vector",
    image_preset="images",
    options=frozenset({"kwargs", "wrappers"}),
)
MODULES = {
    "MiniGrid-": "minigrid",
    "BabyAI-": "minigrid",
    "MiniWorld-": "miniworld",
    "highway-": "highway_env",
    "Meta-World/": "metaworld",
    "dm_control/": "shimmy",
    "Vizdoom": "vizdoom.gymnasium_wrapper",
    **dict.fromkeys(("Fetch", "Hand", "AdroitHand", "AntMaze_", "PointMaze_", "FrankaKitchen"), "gymnasium_robotics"),
}
"""Modules that register ids when they are imported, by the beginning of the id."""
