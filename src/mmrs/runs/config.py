"""The configuration of a training run; the command line of `mmrs train` is made from it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from mmrs.errors import InputError
from mmrs.fields import COUNT, FINITE, Range, check_fields
from mmrs.ppo.advantages import MixingConfig
from mmrs.ppo.ppo import PPOConfig


def json_object(text: str) -> dict[str, Any]:
    """A JSON object as a dictionary."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{text!r} is not a JSON object; expected for example '{{\"size\": 8}}'")
    return value


JSON_OBJECT: PrimitiveConstructorSpec[dict[str, Any]] = PrimitiveConstructorSpec(
    nargs=1,
    metavar="JSON",
    instance_from_str=lambda texts: json_object(texts[0]),
    is_instance=lambda value: isinstance(value, dict),
    str_from_instance=lambda value: [json.dumps(value)],
)
"""How the command line reads a dictionary."""


@dataclass(frozen=True)
class EnvConfig:
    """The environments."""

    id: Annotated[str, tyro.conf.arg(aliases=["--env"])] = "CartPole-v1"
    """A Gymnasium id, an Atari game ("ALE/Alien-v5" or just "Alien") or a Bullet one ("HopperBulletEnv-v0")."""
    num_envs: Annotated[int, COUNT] = 8
    """Number of environments side by side. The paper trains with eight."""
    # Unstated: the games' -v4 versions of the time had none. At 1 no action would ever reach the emulator.
    sticky: Annotated[float, Range(0, 1, open_high=True)] = 0.0
    """Atari: probability that the last action is repeated. The paper states none; the games of its time had 0."""
    obs_type: Literal["features", "image"] = "features"
    """Room worlds (mmrs/KeyRooms-v0, ...): a vector of features, or a gray image."""
    threads: Annotated[int | None, COUNT] = None
    """Atari: number of threads that step the games; None: ale-py chooses."""
    # For Atari on a GPU, None means up to 8 groups in processes if there are at least two more cores than games, else
    # up to 4 in threads. With a number, Atari stays in threads unless `vectorization` is async; with `threads` set, in
    # one group. Since games do not depend on the groups, a run of a GPU can be resumed without one.
    groups: Annotated[int | None, COUNT] = None
    """Groups of environments that step independently; games do not depend on it. None: 1; Atari on a GPU: up to 8."""
    vectorization: Literal["sync", "async"] = "sync"
    """Run environments in this process or in one process each; Atari games in threads or in one process per group."""
    # At most a day: the system's own timers overflow at 25.
    step_timeout: Annotated[float, Range(0, 86_400, open_low=True)] = 30.0
    """Seconds after which a step in another process counts as hung."""
    reseed_every: Annotated[int | None, COUNT] = None
    """Steps after which the next game gets a new seed: bounds the replay of a resume. None: 10,000; in Atari 50,000."""
    reward_clip: bool = False
    """Replace the reward by its sign (Atari)."""
    normalize: bool = False
    """Divide the reward by the standard deviation of its return, and standardize vector observations (Bullet)."""
    kwargs: Annotated[dict[str, Any], JSON_OBJECT] = field(default_factory=dict)
    """Arguments of the environment's constructor as a JSON object, for example '{"size": 8}'."""
    wrappers: tuple[str, ...] = ()
    """Wrappers of each single environment as module:Wrapper, the innermost first; applied before vectorization."""


@dataclass(frozen=True)
class BonusConfig:
    """The intrinsic reward."""

    name: Annotated[str, tyro.conf.arg(aliases=["--bonus"])] = "mmrs"
    """Name of a reward of `mmrs list`, or "none" for plain PPO."""
    options: tuple[str, ...] = ()
    """Options of the reward as name=value, for example: k=10 lambda_g=0.1 preset=paper."""
    weight: Annotated[float, FINITE] = 1.0
    """Weight of the whole bonus; the terms of MMRS have weights of their own as options."""
    final_weight: Annotated[float | None, FINITE] = None
    """Weight at the end of training, reached linearly; None: the weight is constant."""
    scale: Literal["none", "reward", "return"] = "none"
    """Divide by the running standard deviation of the bonus (reward) or of its return."""
    center: bool = False
    """Subtract the running mean, so that staying alive alone is not rewarded."""


@dataclass(frozen=True)
class TrainConfig:
    """Train PPO with an intrinsic reward. Defaults fit the environment and the reward; every value can be changed."""

    env: EnvConfig = field(default_factory=EnvConfig)
    bonus: BonusConfig = field(default_factory=BonusConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    mixing: MixingConfig = field(default_factory=MixingConfig)
    steps: Annotated[int, COUNT] = 10_000_000
    """Agent steps over all environments. The paper trains for ten million; each preset has a number of its own."""
    num_steps: Annotated[int, COUNT] = 128
    """Steps of each environment between two updates: the length of a rollout."""
    # torch's generators take no larger ones.
    seed: Annotated[int, Range(0, 2**63, open_high=True)] = 0
    """Seed of networks, actions, environments and bonus."""
    device: str = "auto"
    """"cpu", "cuda" or "auto": a GPU if there is one."""
    threads: Annotated[int, COUNT] = 1
    """Number of CPU threads of torch and NumPy. Results depend on it, so a resumed run uses the same."""
    root: Path = Path("runs")
    """Folder that holds the folders of runs."""
    name: str = ""
    """Name of the run's folder; empty: environment, bonus and seed."""
    checkpoint_every: Annotated[int, COUNT] = 50
    """Number of updates between checkpoints."""
    wandb: bool = False
    """Log to Weights & Biases too: offline into the run's own folder, unless WANDB_MODE says otherwise."""
    quiet: bool = False
    """Show no progress."""
    imports: Annotated[tuple[str, ...], tyro.conf.arg(name="import")] = ()
    """Modules to import first, by name or path: they register rewards and environments of your own."""


def check(config: TrainConfig) -> None:
    """Refuse impossible values, naming the field and its range."""
    check_fields(config)
    if config.num_steps * config.env.num_envs < config.ppo.minibatches:
        raise InputError("a rollout has fewer transitions than ppo.minibatches; lengthen it or lower the minibatches.")
