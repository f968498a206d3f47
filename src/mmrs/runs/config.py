"""The configuration of a training run; the command line of `mmrs train` is made from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral, Real
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from mmrs.errors import InputError
from mmrs.ppo.advantages import MixingConfig
from mmrs.ppo.ppo import PPOConfig


@dataclass(frozen=True)
class EnvConfig:
    """The environments."""

    id: Annotated[str, tyro.conf.arg(aliases=["--env"])] = "CartPole-v1"
    """A Gymnasium id, an Atari game ("ALE/Alien-v5" or just "Alien") or a Bullet one ("HopperBulletEnv-v0")."""
    num_envs: int = 8
    """Number of environments (Sec. 6.2: eight)."""
    # Unstated: the games' -v4 versions of the time had none.
    sticky: float = 0.0
    """Atari: probability that the last action is repeated. The paper states none; the games of its time had 0."""
    obs_type: Literal["features", "image"] = "features"
    """Room worlds (mmrs/KeyRooms-v0, ...): a vector of features, or a gray image."""
    threads: int | None = None
    """Atari: number of threads that step the games; None: ale-py chooses."""
    # For Atari on a GPU, None means up to 8 groups in processes if there are at least two more cores than games, else
    # up to 4 in threads. With a number, Atari stays in threads unless `vectorization` is async; with `threads` set, in
    # one group. Since games do not depend on the groups, a run of a GPU can be resumed without one.
    groups: int | None = None
    """Groups of environments that step independently; games do not depend on it. None: 1; Atari on a GPU: up to 8."""
    vectorization: Literal["sync", "async"] = "sync"
    """Run environments in this process or in one process each; Atari games in threads or in one process per group."""
    step_timeout: float = 30.0
    """Seconds after which a step in another process counts as hung."""
    reseed_every: int | None = None
    """Steps after which the next game gets a new seed: bounds the replay of a resume. None: 10,000; in Atari 50,000."""
    reward_clip: bool = False
    """Replace the reward by its sign (Atari)."""
    normalize: bool = False
    """Divide the reward by the standard deviation of its return, and standardize vector observations (Bullet)."""


@dataclass(frozen=True)
class BonusConfig:
    """The intrinsic reward."""

    name: Annotated[str, tyro.conf.arg(aliases=["--bonus"])] = "mmrs"
    """Name of a reward of `mmrs list`, or "none" for plain PPO."""
    options: tuple[str, ...] = ()
    """Options of the reward as name=value, for example: k=10 lambda_g=0.1 preset=paper."""
    weight: float = 1.0
    """Weight of the whole bonus; the terms of MMRS have weights of their own as options."""
    final_weight: float | None = None
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
    steps: int = 10_000_000
    """Agent steps over all environments (Sec. 6.2: ten million)."""
    num_steps: int = 128
    """Steps of each environment between updates (Sec. 6.2)."""
    seed: int = 0
    """Seed of networks, actions, environments and bonus."""
    device: str = "auto"
    """"cpu", "cuda" or "auto": a GPU if there is one."""
    threads: int = 1
    """Number of CPU threads of torch and NumPy. Results depend on it, so a resumed run uses the same."""
    root: Path = Path("runs")
    """Folder that holds the folders of runs."""
    name: str = ""
    """Name of the run's folder; empty: environment, bonus and seed."""
    checkpoint_every: int = 50
    """Number of updates between checkpoints."""
    wandb: bool = False
    """Log to Weights & Biases too: offline into the run's own folder, unless WANDB_MODE says otherwise."""
    quiet: bool = False
    """Show no progress."""


@dataclass(frozen=True)
class Range:
    """The values that a field may have; both ends included unless they are open."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def __contains__(self, value: Any) -> bool:
        kind: Any = Integral if self.whole else Real
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        if not self.whole and not math.isfinite(value):  # a configuration file could not hold it either
            return False
        above: bool = value > self.low if self.open_low else value >= self.low
        below: bool = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a finite number"
        edges = []
        if self.low > -math.inf:
            edges.append(f"{'above' if self.open_low else 'at least'} {self.low:,}")
        if self.high < math.inf:
            edges.append(f"{'below' if self.open_high else 'at most'} {self.high:,}")
        return ", ".join([kind, " and ".join(edges)] if edges else [kind])


ANY = Range()
COUNT = Range(1, whole=True)
POSITIVE = Range(0, open_low=True)
NOT_NEGATIVE = Range(0)
SHARE = Range(0, 1)

RANGES = {
    "env.num_envs": COUNT,
    "env.sticky": Range(0, 1, open_high=True),  # at 1 no action would ever reach the emulator
    "env.threads": COUNT,
    "env.groups": COUNT,
    "env.step_timeout": Range(0, 86_400, open_low=True),  # a day: the system's own timers overflow at 25
    "env.reseed_every": COUNT,
    "bonus.weight": ANY,
    "bonus.final_weight": ANY,
    "ppo.learning_rate": NOT_NEGATIVE,
    "ppo.clip": POSITIVE,
    "ppo.epochs": COUNT,
    "ppo.minibatches": COUNT,
    "ppo.gamma": SHARE,
    "ppo.gae_lambda": SHARE,
    "ppo.entropy_weight": ANY,
    "ppo.value_weight": NOT_NEGATIVE,
    "ppo.max_grad_norm": POSITIVE,
    "ppo.grad_value_clip": POSITIVE,
    "ppo.adam_eps": POSITIVE,
    "mixing.extrinsic_weight": ANY,
    "mixing.intrinsic_gamma": SHARE,
    "steps": COUNT,
    "num_steps": COUNT,
    "seed": Range(0, 2**63, open_high=True, whole=True),  # torch's generators take no larger ones
    "threads": COUNT,
    "checkpoint_every": COUNT,
}
"""Range by path of the field in `TrainConfig`. A field that is None is unset and not checked."""


def check(config: TrainConfig) -> None:
    """Refuse impossible values, naming the field and its range."""
    for name, allowed in RANGES.items():
        value = attrgetter(name)(config)
        if value is not None and value not in allowed:
            raise InputError(f"{name} is {value}, expected {allowed}.")
    if config.num_steps * config.env.num_envs < config.ppo.minibatches:
        raise InputError("a rollout has fewer transitions than ppo.minibatches; lengthen it or lower the minibatches.")
