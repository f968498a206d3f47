"""Environments by name: Atari, Bullet, our room worlds or any other Gymnasium id."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Literal

import gymnasium as gym

from mmrs.envs.atari import ATARI_GAMES, AtariEnvs, could_be_game, game_ids, rom_name
from mmrs.envs.base import ResumableVectorEnv
from mmrs.envs.bullet import BULLET_GAMES, make_bullet, register_bullet
from mmrs.envs.gym_envs import GymEnvs, Vectorization, make_single
from mmrs.envs.rooms.maps import WORLDS
from mmrs.errors import InputError, MissingExtraError

ROOM_IDS = {f"mmrs/{name}-v0": name for name in WORLDS}


def make_envs(
    env_id: str,
    num_envs: int,
    *,
    sticky: float = 0.0,
    obs_type: str = "features",
    threads: int | None = None,
    vectorization: Vectorization = "sync",
    step_timeout: float = 30.0,
    reseed_every: int | None = None,
    first_index: int = 0,
    render: bool = False,
) -> ResumableVectorEnv:
    """N copies of an environment, ready to train in.

    Args:
        env_id: An Atari game ("ALE/Alien-v5", "Alien", "alien"), a Bullet game ("HopperBulletEnv-v0") or any other
            Gymnasium id.
        num_envs: Copies.
        sticky: Atari only: probability that the emulator repeats the last action.
        obs_type: Room worlds only: "features" or "image".
        threads: Atari only: threads of the emulator; None lets it choose.
        vectorization: "sync" steps in this process, "async" in one worker per environment. Ignored for Atari, which has
            its own threads (see also `mmrs.envs.subprocess_envs`), and for the compiled room worlds.
        step_timeout: Seconds after which a worker that does not answer is an error.
        reseed_every: Steps after which each environment gets a seeded reset, at its next game over. It forces such a
            reset so that `restore`, which replays, stays short. None: 50,000 for Atari, where such a reset is slow,
            and 10,000 elsewhere.
        first_index: Index of environment 0 within the run, if several objects share its environments.
        render: Whether `render` must work.

    Raises:
        InputError: No such environment; the message suggests similar names.
        MissingExtraError: The package of the environment is not installed.
    """
    if num_envs < 1:
        raise InputError(f"num_envs is {num_envs}, expected at least 1.")
    shared = {"reseed_every": reseed_every, "first_index": first_index, "render": render}
    kind = family(env_id)
    if kind == "atari":
        return AtariEnvs(env_id, num_envs, sticky=sticky, threads=threads, **shared)  # type: ignore[arg-type]
    if sticky:
        raise InputError(f"sticky is {sticky}, but {env_id} is not an Atari game: only the emulator repeats actions.")
    if kind == "rooms":
        from mmrs.envs.rooms.train_env import RoomsEnvs  # noqa: PLC0415 - numba is an extra

        return RoomsEnvs(ROOM_IDS[env_id], num_envs, obs_type=obs_type, first_index=first_index)
    if obs_type != "features":
        raise InputError(f"obs_type is {obs_type!r}, but {env_id} is not a room world: only those have several.")
    make = make_bullet if kind == "bullet" else make_single
    stepping = {"vectorization": vectorization, "step_timeout": step_timeout}
    return GymEnvs(env_id, num_envs, make=make, **stepping, **shared)  # type: ignore[arg-type]


def family(env_id: str) -> Literal["atari", "bullet", "rooms", "gymnasium"]:
    """Which of the four families an id belongs to.

    Raises:
        InputError: No such environment; the message suggests similar names.
        MissingExtraError: The package of the environment is not installed.
    """
    if _is_atari(env_id):
        return "atari"
    if _is_bullet(env_id):
        return "bullet"
    if env_id in ROOM_IDS:
        return "rooms"
    # "module:id" is Gymnasium's way to name a module that registers the id when it is imported.
    if env_id.count(":") != 1 and env_id not in gym.registry:
        raise InputError(f"There is no environment {env_id!r}. {_hint(env_id)}")
    return "gymnasium"


def _is_atari(env_id: str) -> bool:
    """Whether it is an Atari game; ids that other packages registered with Gymnasium are not."""
    if env_id in gym.registry and not _registered_by_ale(env_id):
        return False
    try:
        return rom_name(env_id) is not None
    except MissingExtraError:
        # The games of the paper are known even without ale-py.
        plain = env_id.replace("_", "").lower()
        if env_id.startswith("ALE/") or any(plain == game[len("ALE/") : -len("-v5")].lower() for game in ATARI_GAMES):
            raise
        return False


def _registered_by_ale(env_id: str) -> bool:
    return str(gym.registry[env_id].entry_point).startswith("ale_py")


def _is_bullet(env_id: str) -> bool:
    if "BulletEnv" not in env_id:
        return False
    register_bullet()
    return env_id in gym.registry


def environment_ids() -> list[str]:
    """Every id that `make_envs` knows, whether or not its extra is installed."""
    try:
        atari = game_ids()
    except MissingExtraError:
        atari = list(ATARI_GAMES)
    # Our own ids (mmrs/...) are among them: importing mmrs.envs registers them.
    others = {name for name in gym.registry if not _registered_by_ale(name)}
    return sorted({*others, *atari, *BULLET_GAMES})


def _hint(env_id: str) -> str:
    known = environment_ids()
    close = _close(env_id, known)
    if not close and "/" not in env_id:
        close = _close(f"ALE/{env_id}-v5", known)
    meant = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{meant}{_atari_hint(env_id)}`mmrs list` shows what there is."


def _atari_hint(env_id: str) -> str:
    """Without ale-py only the games of the paper are known: any other plain name may be a game."""
    try:
        game_ids()
    except MissingExtraError as error:
        return f"If it is an Atari game: {error}. " if could_be_game(env_id) else ""
    return ""


def _close(env_id: str, known: Iterable[str]) -> list[str]:
    """Up to three similar names, ignoring case."""
    spelling = {name.lower(): name for name in known}
    return [spelling[name] for name in difflib.get_close_matches(env_id.lower(), spelling, n=3, cutoff=0.6)]
