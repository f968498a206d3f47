"""Registry of rewards by name: `make("rnd", observation_space, action_space)`, and `register` for custom rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal

from gymnasium import spaces

from mmrs.errors import InputError, did_you_mean
from mmrs.plugins import reward_entry_points
from mmrs.rewards.base import IntrinsicReward
from mmrs.rewards.counts import CountConfig, CountReward
from mmrs.rewards.jfi import JFI, JFIConfig
from mmrs.rewards.landmarks import LandmarkFairness
from mmrs.rewards.landmarks_config import LandmarkConfig
from mmrs.rewards.mmrs import MMRS
from mmrs.rewards.mmrs_config import PRESETS, MMRSConfig
from mmrs.rewards.options import configured, require_known
from mmrs.rewards.re3 import RE3, RE3Config
from mmrs.rewards.ride import RIDE, RIDEConfig
from mmrs.rewards.rnd import RND, RNDConfig
from mmrs.rewards.signatures import options_of

RewardFactory = Callable[..., IntrinsicReward]


@dataclass(frozen=True)
class RewardEntry:
    """What is known of a reward before it is made."""

    factory: RewardFactory
    """Class, or function, called with both spaces, `seed` and options."""
    config: type[Any]
    """Frozen dataclass of the options, with type, default, range and help of each."""
    causal: bool | None = None
    """Whether it can be computed step by step; None: known once it is made."""
    # For bonuses without weights of their own: small and centered. A positive bonus rewards staying alive, and
    # centering was worth more than any other choice for them.
    weight: float = 0.03
    """Default weight of the bonus in `mmrs train`."""
    scale: Literal["none", "reward", "return"] = "reward"
    """Default of `bonus.scale`."""
    center: bool = True
    """Default of `bonus.center`."""
    decays: bool = False
    """Whether `mmrs train` lets its learning rate fall to 0 over the run, by the option `total_updates`."""
    presets: Mapping[str, Any] = field(default_factory=dict)
    """Configurations by name, for the option `preset`."""
    takes_config: bool = True
    """Whether the factory takes the configuration itself, as `config`."""
    takes_seed: bool = True
    open: bool = False
    """Whether the factory takes options beyond its configuration."""

    @property
    def names(self) -> list[str]:
        """Names of the options."""
        return [*(["preset"] if self.presets else []), *(option.name for option in fields(self.config))]


_OWN_WEIGHTS: dict[str, Any] = {"weight": 1.0, "scale": "none", "center": False}
REWARDS: dict[str, RewardEntry] = {
    "jfi": RewardEntry(JFI, JFIConfig, causal=True, **_OWN_WEIGHTS),
    "landmarks": RewardEntry(LandmarkFairness, LandmarkConfig, causal=True, decays=True),
    "mmrs": RewardEntry(MMRS, MMRSConfig, causal=False, decays=True, presets=PRESETS, **_OWN_WEIGHTS),
    "re3": RewardEntry(RE3, RE3Config, causal=False),
    "ride": RewardEntry(RIDE, RIDEConfig, causal=True, decays=True),
    "rnd": RewardEntry(RND, RNDConfig, causal=True, decays=True),
    "count_bonus": RewardEntry(partial(CountReward, form="bonus"), CountConfig, causal=True),
    "count_penalty": RewardEntry(partial(CountReward, form="penalty"), CountConfig, causal=True),
    "coverage": RewardEntry(partial(CountReward, form="coverage"), CountConfig, causal=True),
    "entropy": RewardEntry(partial(CountReward, form="entropy"), CountConfig, causal=True),
    "exp_decay": RewardEntry(partial(CountReward, form="decay"), CountConfig, causal=True),
}


def register(name: str, factory: RewardFactory, **defaults: Any) -> None:
    """Make a custom reward available to `make` and wherever a reward is chosen by name.

    Args:
        name: its name.
        factory: a subclass of `IntrinsicReward`, or a function that makes one. Its keyword-only parameters are the
            options; a parameter `config` annotated with a frozen dataclass makes the fields of that the options.
        **defaults: fields of `RewardEntry` that differ, for example ``weight=0.1, center=False, decays=True``.
    """
    if name in REWARDS:
        raise InputError(f"a reward named {name!r} is registered already; choose another name.")
    if name in ("none", "ppo", "mmrs-paper"):
        raise InputError(f"{name!r} stands for a method of `mmrs train` already; choose another name.")
    if not callable(factory):
        raise InputError(f"the factory of {name!r} is {factory!r}, expected a class or a function.")
    known = [option.name for option in fields(RewardEntry) if option.name != "factory"]
    require_known("register", defaults, known)
    found = options_of(name, factory)
    causal = getattr(factory, "causal", None)
    derived = {**found._asdict(), "causal": causal if isinstance(causal, bool) else None}
    REWARDS[name] = RewardEntry(factory, **{**derived, **defaults})


def reward_names() -> list[str]:
    """Every reward that `find` knows, those of installed packages last."""
    return list(dict.fromkeys((*REWARDS, *reward_entry_points())))


def find(name: str) -> RewardEntry:
    """The entry of this name; a reward that an installed package offers is loaded when it is first asked for."""
    if isinstance(name, str) and name not in REWARDS:
        load = reward_entry_points().get(name)
        factory = load() if load else None
        if factory and name not in REWARDS:  # its module may have registered it
            register(name, factory)
    if not isinstance(name, str) or name not in REWARDS:
        raise InputError(f"there is no reward {name!r}. {did_you_mean(str(name), reward_names())}")
    return REWARDS[name]


def configure(name: str, options: dict[str, Any], config: Any = None) -> Any:
    """The configuration of a reward with these options, checked; options that it does not name are left out."""
    entry = find(name)
    if not entry.open:
        require_known(name, options, entry.names)
    preset = options.get("preset", "default") if entry.presets else None
    if preset is not None and config is None:
        if not isinstance(preset, entry.config) and preset not in list(entry.presets):
            raise InputError(f"{name} has no preset {preset!r}. {did_you_mean(str(preset), entry.presets)}")
        config = entry.presets[preset] if isinstance(preset, str) else preset
    known = {option.name for option in fields(entry.config)}
    return configured(name, entry.config, config, {key: value for key, value in options.items() if key in known})


def settings(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Every option of a reward with its value, defaults and what its name fixes filled in."""
    config = configure(name, options)
    known = {option.name: getattr(config, option.name) for option in fields(config)}
    factory = find(name).factory
    fixed = factory.keywords if isinstance(factory, partial) else {}
    return {**fixed, **known, **{key: value for key, value in options.items() if key not in known and key != "preset"}}


def make(
    name: str,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    config: Any = None,
    **options: Any,
) -> IntrinsicReward:
    """Make a reward by name from the spaces of a single environment.

    Args:
        name: one of `REWARDS`.
        observation_space: space of one environment: ``envs.single_observation_space`` of a vector environment.
        action_space: space of one environment: ``envs.single_action_space``.
        config: configuration of that reward, such as `RNDConfig`; None: the defaults.
        **options: `seed`, and fields of the configuration to replace.
    """
    entry = find(name)
    given = {key: value for key, value in options.items() if key != "seed" or not entry.takes_seed}
    checked = configure(name, given, config)
    if not entry.takes_config:
        known = {option.name: getattr(checked, option.name) for option in fields(checked)}
        chosen = options if config is None else {**known, **options}
        return entry.factory(observation_space, action_space, **chosen)
    return entry.factory(observation_space, action_space, config=config, **options)
