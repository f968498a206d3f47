"""Any Gymnasium environment by its id, with the usual wrappers where it shows pictures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import gymnasium as gym
from gymnasium import wrappers

from mmrs.envs.in_process import InProcessStepper
from mmrs.envs.replay import ReplayedEnvs
from mmrs.envs.stepping import Stepper, check_spaces
from mmrs.envs.workers import WorkerStepper
from mmrs.errors import InputError, MissingExtraError, MmrsError, sentence
from mmrs.spaces import observation_spec

Vectorization = Literal["sync", "async"]
RESEED_EVERY = 10_000
"""Steps between seeded resets, which cost no more than others here; replay then takes seconds."""


def make_one(env_id: str, *, render: bool = False, prime: bool = False) -> gym.Env[Any, Any]:
    """One environment, ready for a stepper.

    Args:
        env_id: Gymnasium id.
        render: Whether it must draw pictures.
        prime: Reset it once and throw the result away, for simulators whose first reset differs from all later ones.
    """
    # Some environments take no render_mode, not even None.
    drawing: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    try:
        env = gym.make(env_id, disable_env_checker=True, **drawing)
    except MmrsError:
        raise  # one of our own environments, which says what it lacks
    except (gym.error.Error, ImportError) as error:
        missing = isinstance(error, gym.error.DependencyNotInstalled | ModuleNotFoundError)
        why = "needs something that is not installed" if missing else "cannot be made"
        raise InputError(f"{env_id} {why}: {sentence(error)} `mmrs list` shows other environments.") from error
    except TypeError as error:
        if not render:
            raise
        raise InputError(f"{env_id} draws no pictures: {error}.") from error
    check_spaces(env_id, env.observation_space, env.action_space)
    try:
        env = _image_wrappers(env)
        if prime:
            env.reset()
    except BaseException:
        env.close()
        raise
    return env


def _image_wrappers(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Single pictures, RGB or gray, become what the networks read: 84x84 gray, the last four stacked.

    Channels that come first are taken for frames that somebody has stacked already.
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


def shows_pictures(env_id: str) -> bool:
    """Whether the networks for images will read the environment, which is made and closed to see."""
    env = make_one(env_id)
    env.close()
    return observation_spec(env.observation_space).kind == "image"


def make_stepper(
    maker: Callable[[], gym.Env[Any, Any]],
    num_envs: int,
    vectorization: Vectorization,
    step_timeout: float,
    first_index: int,
) -> Stepper:
    """N environments in this process, or in one worker each."""
    if vectorization not in ("sync", "async"):
        raise InputError(f"vectorization is {vectorization!r}, expected 'sync' or 'async'.")
    makers = [maker] * num_envs
    if vectorization == "sync":
        return InProcessStepper(makers, first_index)
    return WorkerStepper(makers, step_timeout, first_index)


class GymEnvs(ReplayedEnvs):
    """N copies of any Gymnasium environment with Box or Discrete observations, each made by `make(env_id)`.

    In this process unless asked otherwise; pybullet's lock would make threads useless.
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
        stepper = make_stepper(maker, num_envs, vectorization, step_timeout, first_index)
        super().__init__(stepper, reseed_every=reseed_every or RESEED_EVERY, first_index=first_index)
