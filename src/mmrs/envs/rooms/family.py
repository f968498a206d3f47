"""The family of the room worlds. Their compiled environments are imported when one is made."""

from __future__ import annotations

from mmrs.envs.base import ResumableVectorEnv
from mmrs.envs.family import EnvFamily, EnvOptions
from mmrs.envs.rooms.maps import WORLDS

ROOM_IDS = {f"mmrs/{name}-v0": name for name in WORLDS}
"""World by id."""


def _make(env_id: str, num_envs: int, options: EnvOptions) -> ResumableVectorEnv:
    from mmrs.envs.rooms.train_env import RoomsEnvs  # noqa: PLC0415 - numba is slow to import

    return RoomsEnvs(ROOM_IDS[env_id], num_envs, obs_type=options.obs_type, first_index=options.first_index)


ROOMS_FAMILY = EnvFamily(
    name="rooms",
    title="of mmrs",
    matches=ROOM_IDS.__contains__,
    make=_make,
    ids=lambda: ROOM_IDS,
    preset="rooms",
    options=frozenset({"obs_type"}),
    refusal="is a compiled world that steps all environments at once: there are no single ones. Its option is "
    "env.obs_type.",
    one_group="the visit counts of room worlds",
)
