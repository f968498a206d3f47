"""Bullet games through pybullet-envs-gymnasium, which has the bodies, observations and rewards of the paper's games."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym

from mmrs.envs.family import EnvFamily, EnvOptions, ReportScale
from mmrs.envs.gym_envs import GymEnvs, make_single
from mmrs.errors import MissingExtraError

BULLET_GAMES = (
    "AntBulletEnv-v0",
    "HalfCheetahBulletEnv-v0",
    "HopperBulletEnv-v0",
    "HumanoidBulletEnv-v0",
    "InvertedPendulumBulletEnv-v0",
    "Walker2DBulletEnv-v0",
)
"""The six games of the paper's table."""


def register_bullet() -> None:
    """Make the Bullet ids known to Gymnasium."""
    try:
        import pybullet_envs_gymnasium  # noqa: F401, PLC0415 - optional; importing it registers the ids
    except ImportError:
        raise MissingExtraError("pybullet", "bullet") from None


def make_bullet(env_id: str, **options: Any) -> gym.Env[Any, Any]:
    """One Bullet game, reset once.

    The first reset loads the robot, and later ones restore a saved state, after which the physics differs. With one
    warm-up reset every seeded reset leads to the same state, which replay relies on.
    """
    with _silent():
        register_bullet()
        return make_single(env_id, warmup_reset=True, **options)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Suppress pybullet's greetings, which C code writes to the terminal and to pipes without Python."""
    libc = ctypes.CDLL("msvcrt" if os.name == "nt" else None)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(descriptor) for descriptor in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        yield
    finally:
        libc.fflush(None)  # flush the buffers of C, which would be written later
        for descriptor, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(nowhere)


def _matches(env_id: str) -> bool:
    if "BulletEnv" not in env_id:
        return False
    register_bullet()
    return env_id in gym.registry


def _make(env_id: str, num_envs: int, options: EnvOptions) -> GymEnvs:
    return GymEnvs(env_id, num_envs, make=make_bullet, **options.single, **options.stepping)


def _game(env_id: str) -> str | None:
    """The tables' name: "HopperBulletEnv-v0" is "Hopper". MuJoCo's Hopper-v5 is another game."""
    match = re.fullmatch(r"(\w+?)(?:BulletEnv-v\d+)?", env_id)
    return match[1] if match else None


BULLET_FAMILY = EnvFamily(
    name="bullet",
    title="Bullet",
    matches=_matches,
    make=_make,
    ids=lambda: BULLET_GAMES,
    preset="bullet",
    options=frozenset({"kwargs", "wrappers"}),
    paper_preset="paper-bullet",
    report=ReportScale("Bullet games", "1 is the paper's PPO", _game),
    package="pybullet_envs_gymnasium",
    extra="bullet",
)
