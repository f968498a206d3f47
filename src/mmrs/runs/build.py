"""Builds environments, bonus and trainer from a configuration."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from mmrs import plugins
from mmrs.envs.base import ResumableVectorEnv
from mmrs.envs.registry import find_family, make_envs
from mmrs.envs.subprocess_envs import make_subproc_envs, subprocesses_available
from mmrs.errors import InputError
from mmrs.ppo.ppo import Loss, ppo_loss
from mmrs.ppo.trainer import Trainer
from mmrs.rewards import IntrinsicReward, Scaled, Weighted, make
from mmrs.rewards.options import require_known
from mmrs.rewards.registry import find, settings
from mmrs.runs.config import BonusConfig, EnvConfig, TrainConfig, check
from mmrs.runs.threads import set_num_threads, usable_cores


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto": a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"device {name!r} is unknown; expected cpu, cuda or auto.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("device is cuda, but torch finds no GPU. Use --device cpu or auto.")
    return device


def parse_options(options: tuple[str, ...]) -> dict[str, Any]:
    """`k=10 preset=paper` as keyword arguments: numbers, booleans and None become values, anything else stays text."""
    parsed: dict[str, Any] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise InputError(f"bonus option {option!r}: expected name=value, for example lambda_g=0.1.")
        try:
            parsed[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            parsed[name] = value
    return parsed


def option_text(value: Any) -> str:
    """A value as `parse_options` reads it: text that looks like a number keeps its quotes."""
    if not isinstance(value, str):
        return repr(value)
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
    return repr(value)


def bonus_settings(config: TrainConfig) -> dict[str, Any]:
    """Every option of the bonus with its value: the record of a run must not depend on the defaults of a version."""
    if config.bonus.name == "none":
        return {}
    known = settings(config.bonus.name, bonus_options(config.bonus, total_updates(config)))
    return {name: _as_data(value) for name, value in known.items()}


def _as_data(value: Any) -> Any:
    """An option as JSON can hold it, the same in every process."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        return [_as_data(item) for item in value]
    return qualified_name(value)


def qualified_name(value: Any) -> str:
    """Module and name of a function or class; for any other object, those of its class."""
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"


def total_updates(config: TrainConfig) -> int:
    """Number of updates of a whole run."""
    return -(-config.steps // (config.num_steps * config.env.num_envs))


def bonus_options(config: BonusConfig, updates: int) -> dict[str, Any]:
    """Keyword arguments of the reward; learning rates that can decay do so over the run."""
    options = parse_options(config.options)
    if "seed" in options:
        raise InputError(f"bonus.options has seed={options['seed']}, but the bonus takes the run's seed. Use --seed.")
    entry = find(config.name)
    if not entry.open:
        require_known(config.name, options, entry.names)
    if entry.decays:
        options.setdefault("total_updates", updates)  # Sec. 6.2: "a linearly decaying learning rate"
    return options


def build_bonus(config: BonusConfig, envs: ResumableVectorEnv, updates: int, seed: int) -> IntrinsicReward | None:
    """The bonus wrapped in its scale and weight, or None."""
    if config.name == "none":
        return None
    options = bonus_options(config, updates)
    bonus = make(config.name, envs.observation_space, envs.action_space, seed=seed, **options)
    if config.scale != "none":
        bonus = Scaled(bonus, by=config.scale, center=config.center)
    elif config.center:
        raise InputError("bonus.center needs bonus.scale: set it to 'reward' or 'return'.")
    if config.weight == 1.0 and config.final_weight is None:
        return bonus
    over = updates if config.final_weight is not None else 0
    return Weighted(bonus, config.weight, final_weight=config.final_weight, over_updates=over)


def build_envs(
    config: EnvConfig, *, render: bool = False, num_envs: int | None = None, first_index: int = 0
) -> ResumableVectorEnv:
    """The environments of a configuration."""
    return make_envs(
        config.id,
        num_envs or config.num_envs,
        sticky=config.sticky,
        obs_type=config.obs_type,
        threads=config.threads,
        vectorization=config.vectorization,
        step_timeout=config.step_timeout,
        reseed_every=config.reseed_every,
        render=render,
        first_index=first_index,
        kwargs=config.kwargs,
        wrappers=config.wrappers,
    )


def build_trainer(config: TrainConfig, loss: Loss = ppo_loss) -> Trainer:
    """Environments, bonus and learner, ready to start or to be restored."""
    check(config)
    plugins.load(config.imports)
    set_num_threads(config.threads)
    device = choose_device(config.device)
    groups = build_groups(config.env, device)
    try:
        bonus = build_bonus(config.bonus, groups[0], total_updates(config), config.seed)
        return Trainer(
            groups,
            bonus,
            ppo=config.ppo,
            mixing=config.mixing,
            num_steps=config.num_steps,
            total_steps=config.steps,
            reward_clip=config.env.reward_clip,
            normalize=config.env.normalize,
            seed=config.seed,
            device=device,
            cpu_shared=config.env.threads is not None,  # who sets it runs several trainings on one machine
            loss=loss,
        )
    except BaseException:
        for envs in groups:
            envs.close()
        raise


def build_groups(config: EnvConfig, device: torch.device) -> list[ResumableVectorEnv]:
    """The environments in groups of equal size: while some groups step, the policy acts for others."""
    in_processes, groups = _choose_groups(config, device)
    if config.num_envs % groups:
        raise InputError(f"env.groups is {groups}, expected a divisor of env.num_envs ({config.num_envs}).")
    # Running statistics and coverage depend on which environments step together; results must not.
    together = "the statistics of env.normalize" if config.normalize else find_family(config.id).one_group
    if groups > 1 and together:
        raise InputError(
            f"env.groups is {groups}, but {together} need all environments in one group. Leave env.groups out."
        )
    size = config.num_envs // groups
    each = replace(config, threads=None if config.threads is None else max(1, config.threads // groups))
    makers = [partial(build_envs, each, num_envs=size, first_index=i * size) for i in range(groups)]
    return list(make_subproc_envs(makers, config.step_timeout)) if in_processes else [make() for make in makers]


def _choose_groups(config: EnvConfig, device: torch.device) -> tuple[bool, int]:
    """Whether groups of games run in processes, and the number of groups.

    On a CPU the number depends on the configuration alone: with another number, images give other rounding errors.
    """
    several = find_family(config.id).many_groups
    requested = several and config.vectorization == "async"
    if requested and not subprocesses_available():
        raise InputError("env.vectorization is async, but this system or process cannot start others. Leave it out.")
    if config.groups is not None:
        return requested, config.groups
    if not several or device.type != "cuda" or config.threads is not None or config.normalize:
        return requested, 1
    # A core for each game, one for the trainer and one to spare: they poll each other all the time.
    in_processes = requested or (subprocesses_available() and usable_cores() >= config.num_envs + 2)
    return in_processes, _most_groups(config.num_envs, 8 if in_processes else 4)


def _most_groups(num_envs: int, most: int) -> int:
    """The largest number of equal groups up to `most`; more would wait for each other."""
    return max(groups for groups in range(1, most + 1) if num_envs % groups == 0)
