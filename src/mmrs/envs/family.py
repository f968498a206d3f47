"""A family of environments as data: which ids it has, how they are made, and what the rest of the package asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mmrs.envs.base import ResumableVectorEnv
from mmrs.errors import InputError


@dataclass(frozen=True)
class EnvOptions:
    """How environments are made; `mmrs.envs.registry.make_envs` explains each option."""

    sticky: float = 0.0
    obs_type: str = "features"
    threads: int | None = None
    vectorization: str = "sync"
    step_timeout: float = 30.0
    reseed_every: int | None = None
    first_index: int = 0
    render: bool = False
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()

    @property
    def single(self) -> dict[str, Any]:
        """What concerns each single environment, for `GymEnvs`."""
        return {"render": self.render, "kwargs": self.kwargs, "wrappers": self.wrappers}

    @property
    def stepping(self) -> dict[str, Any]:
        """How single environments are stepped together, for `GymEnvs`."""
        names = ("vectorization", "step_timeout", "reseed_every", "first_index")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class ReportScale:
    """A set of games whose scores stand together in a report, on one scale."""

    title: str
    """Heading of tables and figures."""
    about: str
    """What 0 and 1 mean on the scale."""
    game: Callable[[str], str | None]
    """The name of a game in published tables, from its id; None if the id is of no such game."""
    bounds: Mapping[str, tuple[float, float]] | None = None
    """Scores that count as 0 and as 1, by name of the game. None: `report/reference_scores.py` has them."""


@dataclass(frozen=True)
class EnvFamily:
    """Environments that are made or stepped in a way of their own."""

    name: str
    title: str
    """Word that `mmrs list` prints."""
    matches: Callable[[str], bool]
    """Whether an id belongs to the family; the first family that matches has it."""
    make: Callable[[str, int, EnvOptions], ResumableVectorEnv]
    """Makes N environments."""
    ids: Callable[[], Iterable[str]]
    """The ids that `mmrs list` shows, whether or not the package is installed."""
    preset: str = "vector"
    """Name of its defaults in `runs/presets.py`."""
    image_preset: str | None = None
    """The same for observations that are images; None: no other."""
    options: frozenset[str] = frozenset()
    """Names of the `CHOICES` that its environments take."""
    refusal: str = ""
    """Why they take no kwargs and no wrappers, where they do not."""
    one_group: str = ""
    """Why its environments have to step in one group, where they have to."""
    many_groups: bool = False
    """Whether groups of environments step independently by default: several on a GPU, and in processes if asked."""
    paper_preset: str = "paper"
    """Preset of MMRS with the weights that the paper prints."""
    report: ReportScale | None = None
    package: str | None = None
    """Module that has to be installed; None: none beyond those of `mmrs`."""
    extra: str | None = None
    """Extra of this package that installs it."""

    def check(self, env_id: str, options: EnvOptions) -> None:
        """Refuse options that the family does not have."""
        for name, why in CHOICES.items():
            value = getattr(options, name)
            if name not in self.options and value != getattr(DEFAULTS, name):
                reason = why or self.refusal or f"the family {self.name} takes none."
                raise InputError(f"{name} is {value!r}, but {env_id} {reason}")


DEFAULTS = EnvOptions()
CHOICES = {
    "sticky": "is not an Atari game: only the emulator repeats actions.",
    "obs_type": "is not a room world: only those have several.",
    "kwargs": "",
    "wrappers": "",
}
"""Options that only some families have, each with what to say elsewhere; empty: the family has a reason of its own."""
