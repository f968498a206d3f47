"""Defaults by kind of environment and by reward, each with its section of the paper or its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mmrs.envs.gym_envs import has_image_obs
from mmrs.envs.registry import find_family
from mmrs.errors import InputError, did_you_mean
from mmrs.ppo.ppo import PPOConfig
from mmrs.rewards.registry import find, reward_names
from mmrs.runs.config import BonusConfig, EnvConfig, TrainConfig

ATARI = TrainConfig(
    env=EnvConfig("ALE/Alien-v5", reward_clip=True),  # the cited code clips Atari rewards to their sign
    steps=10_000_000,  # Sec. 6.2
)
BULLET = TrainConfig(
    # Sec. 6.3 says "no normalization", but the cited code normalizes both, and the weights of the paper assume it.
    env=EnvConfig("HopperBulletEnv-v0", normalize=True),
    steps=10_000_000,  # Sec. 6.3
)
# By family: the values printed in the paper where they differ from the code that it cites, with the literal reward.
_LITERAL_PPO = PPOConfig(learning_rate=2.5e-3, grad_value_clip=5.0)  # Sec. 6.2; "consistent" with it in Sec. 6.3
PAPER_LITERAL = {
    "atari": replace(ATARI, bonus=BonusConfig("mmrs", options=("preset=paper",)), ppo=_LITERAL_PPO),  # Sec. 6.2
    "bullet": replace(
        BULLET,
        env=replace(BULLET.env, normalize=False),  # Sec. 6.3: "no normalization was performed to the states"
        bonus=BonusConfig("mmrs", options=("preset=paper-bullet",)),  # Sec. 6.3
        ppo=_LITERAL_PPO,
    ),
}
# Small vector problems: the usual settings for them, not the paper's, which has none.
VECTOR = TrainConfig(
    env=EnvConfig("CartPole-v1"),
    ppo=PPOConfig(learning_rate=1e-3, clip=0.2, epochs=10, gamma=0.98, entropy_weight=0.0, clip_values=False),
    steps=100_000,
)
# Images of any other environment: the values of Atari without the clipping of rewards, which its scores need.
IMAGES = replace(ATARI, env=EnvConfig("CarRacing-v3"), steps=1_000_000)
# The room worlds: the values with which the default form of MMRS was found.
ROOMS = TrainConfig(
    env=EnvConfig("mmrs/KeyRooms-v0"),
    ppo=PPOConfig(learning_rate=1e-3, linear_decay=False, clip=0.2, clip_values=False),
    steps=102_400,
)
PRESETS = {"rooms": ROOMS, "atari": ATARI, "bullet": BULLET, "vector": VECTOR, "images": IMAGES}
# Every preset that `mmrs list` shows; paper-literal once per form.
ALL_PRESETS = PRESETS | {f"paper-literal ({kind.title()})": config for kind, config in PAPER_LITERAL.items()}


def default_bonus(name: str) -> BonusConfig:
    """The bonus of this name with its default weight and scale."""
    if name not in reward_names():  # "none", or a mistake that is refused where the reward is made
        return BonusConfig(name)
    entry = find(name)
    return BonusConfig(name, weight=entry.weight, scale=entry.scale, center=entry.center)


def default_config(
    env: str | None = None,
    bonus: str | None = None,
    preset: str | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    wrappers: Sequence[str] = (),
) -> TrainConfig:
    """The default configuration for an environment, a bonus and a preset.

    Args:
        env: id of the environment.
        bonus: name of a reward, or "none".
        preset: name of a preset; None: that of the environment.
        kwargs: arguments of the environment's constructor, on which its observations may depend.
        wrappers: wrappers of the environment, in the same way.
    """
    config = _paper_literal(env) if preset == "paper-literal" else _preset(env, preset, kwargs, wrappers)
    if env:
        config = replace(config, env=replace(config.env, id=env))
    if bonus and bonus != config.bonus.name:
        config = replace(config, bonus=default_bonus(bonus))
    return config


def _preset(
    env: str | None, name: str | None, kwargs: Mapping[str, Any] | None, wrappers: Sequence[str]
) -> TrainConfig:
    """The preset of this name; without a name, that of the environment's family."""
    if name is None and env:
        found = find_family(env)
        images = found.image_preset and has_image_obs(env, kwargs, wrappers)
        name = found.image_preset if images else found.preset
    name = name or "rooms"
    if name not in PRESETS:
        raise InputError(f"there is no preset {name!r}. {did_you_mean(name, (*PRESETS, 'paper-literal'))}")
    return PRESETS[name]


def _paper_literal(env: str | None) -> TrainConfig:
    """The values printed in the paper for the environment's family; those for Atari without an environment."""
    kind = find_family(env).preset if env else "atari"
    if kind not in PAPER_LITERAL:
        raise InputError(
            f"the preset paper-literal has what the paper prints for Atari and Bullet games, and {env} is neither. "
            "Leave --preset out; the printed reward is --bonus.options preset=paper, and the printed PPO is "
            f"--ppo.learning-rate {_LITERAL_PPO.learning_rate} --ppo.grad-value-clip {_LITERAL_PPO.grad_value_clip}."
        )
    return PAPER_LITERAL[kind]
