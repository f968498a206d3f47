"""Environments by name: Atari, Bullet, our room worlds or any other Gymnasium id."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mmrs.envs.atari import ATARI_FAMILY, could_be_game, game_ids, registered_by_ale
from mmrs.envs.base import ResumableVectorEnv
from mmrs.envs.bullet import BULLET_FAMILY
from mmrs.envs.family import EnvFamily, EnvOptions
from mmrs.envs.gym_envs import GYMNASIUM_FAMILY, MODULES, Vectorization
from mmrs.envs.rooms.family import ROOMS_FAMILY
from mmrs.errors import InputError, MissingExtraError

FAMILIES = {found.name: found for found in (ATARI_FAMILY, BULLET_FAMILY, ROOMS_FAMILY, GYMNASIUM_FAMILY)}
"""The families, in the order in which they are asked whether an id is theirs."""


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
    kwargs: Mapping[str, Any] | None = None,
    wrappers: Sequence[str] = (),
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
        kwargs: Arguments of the environment's constructor, for families that make single environments.
        wrappers: Wrappers of each single environment as ``module:Wrapper``, the innermost first.

    Raises:
        InputError: No such environment; the message suggests similar names.
        MissingExtraError: The package of the environment is not installed.
    """
    if num_envs < 1:
        raise InputError(f"num_envs is {num_envs}, expected at least 1.")
    found = find_family(env_id)
    options = EnvOptions(
        sticky=sticky,
        obs_type=obs_type,
        threads=threads,
        vectorization=vectorization,
        step_timeout=step_timeout,
        reseed_every=reseed_every,
        first_index=first_index,
        render=render,
        kwargs=kwargs or {},
        wrappers=tuple(wrappers),
    )
    found.check(env_id, options)
    return found.make(env_id, num_envs, options)


def find_family(env_id: str) -> EnvFamily:
    """The family that an id belongs to.

    Raises:
        InputError: No such environment; the message suggests similar names.
        MissingExtraError: The package of the environment is not installed.
    """
    for found in FAMILIES.values():
        if found.matches(env_id):
            return found
    raise InputError(f"There is no environment {env_id!r}. {_hint(env_id)}")


def family(env_id: str) -> str:
    """Name of the family that an id belongs to; raises what `find_family` raises."""
    return find_family(env_id).name


def register_family(new: EnvFamily) -> None:
    """Add a family. It is asked before the Gymnasium ids in general, and after the families that are there."""
    if new.name in FAMILIES:
        raise InputError(f"a family named {new.name!r} is registered already; choose another name.")
    general = FAMILIES.pop(GYMNASIUM_FAMILY.name)
    FAMILIES.update({new.name: new, general.name: general})


def environment_kinds() -> dict[str, EnvFamily]:
    """Every id that `make_envs` knows with its family, whether or not its extra is installed; sorted."""
    # Our own ids (mmrs/...) are among those of Gymnasium: importing mmrs.envs registers them.
    kinds: dict[str, EnvFamily] = {}
    for found in FAMILIES.values():
        for name in found.ids():
            if found is not GYMNASIUM_FAMILY or not registered_by_ale(name):
                kinds.setdefault(name, found)
    return dict(sorted(kinds.items()))


def environment_ids() -> list[str]:
    """Every id that `make_envs` knows, whether or not its extra is installed."""
    return list(environment_kinds())


def _hint(env_id: str) -> str:
    for prefix, module in MODULES.items():
        if env_id.startswith(prefix) and ":" not in env_id:
            return f"Ids of this kind come with the module {module}: write {module}:{env_id}"
    known = environment_ids()
    close = _close(env_id, known)
    if not close and "/" not in env_id:
        # Without "ALE/" and "-v5", which would make every short name similar to every other.
        games = {name.removeprefix("ALE/").rpartition("-v")[0]: name for name in known if name.startswith("ALE/")}
        close = [games[name] for name in _close(env_id.partition("-v")[0], games)]
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
