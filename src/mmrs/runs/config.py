"""Everything a training run depends on, as one frozen configuration: code, command line and docs read it here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from mmrs.ppo.advantages import MixingConfig
from mmrs.ppo.ppo import PPOConfig


@dataclass(frozen=True)
class EnvConfig:
    """Where to train."""

    id: Annotated[str, tyro.conf.arg(aliases=["--env"])] = "CartPole-v1"
    """A Gymnasium id, an Atari game ("ALE/Alien-v5" or just "Alien") or a Bullet one ("HopperBulletEnv-v0")."""
    num_envs: int = 8
    """Environments stepped together (Sec. 6.2: eight)."""
    sticky: float = 0.0
    """Atari: chance that an action is repeated. # Unstated: the games' -v4 versions of the time had none."""
    obs_type: Literal["features", "image"] = "features"
    """Room worlds (mmrs/KeyRooms-v0, ...): numbers, or a grey image."""
    threads: int | None = None
    """Atari: threads that step the games; None: ale-py chooses."""
    groups: int | None = None
    """Groups that step and act by themselves, so that none waits for another. None: one; but for Atari on a GPU up to
    eight, each in a process of its own, if there are at least two cores more than games, and else up to four in
    threads. A number keeps Atari in threads, unless `vectorization` is async; so does `threads`, in one group. Games go
    the same way in any number of groups, so a run of a GPU may be resumed without one."""
    vectorization: Literal["sync", "async"] = "sync"
    """Step Bullet and other games in this process, or in one process each; Atari games in threads of this process (but
    see `groups`), or in one process a group."""
    step_timeout: float = 30.0
    """Seconds after which a step in another process counts as hung."""
    reseed_every: int | None = None
    """Steps after which an environment's next game starts from a fresh seed: bounds what a resume must replay.
    None: 50,000 in Atari, where a seeded reset is slow, and 10,000 elsewhere."""
    reward_clip: bool = False
    """Learn from the sign of the reward (Atari)."""
    normalise: bool = False
    """Scale the reward by the spread of its return and, where observations are vectors, standardise them (Bullet)."""


@dataclass(frozen=True)
class BonusConfig:
    """The intrinsic reward."""

    name: Annotated[str, tyro.conf.arg(aliases=["--bonus"])] = "mmrs"
    """A reward of `mmrs list`, or "none" for plain PPO."""
    options: tuple[str, ...] = ()
    """Options of the reward as name=value, for example: k=10 lambda_g=0.1 preset=paper."""
    weight: float = 1.0
    """Weight of the whole bonus; the terms of MMRS carry their own inside."""
    final_weight: float | None = None
    """Weight at the end of training; None: constant."""
    scale: Literal["none", "reward", "return"] = "none"
    """Divide by the running spread of the bonus, or of its return."""
    centre: bool = False
    """Subtract the running mean, so that staying alive is not paid by itself."""


@dataclass(frozen=True)
class TrainConfig:
    """Train PPO with an intrinsic reward. Defaults fit the environment and the reward; every number can be changed."""

    env: EnvConfig = field(default_factory=EnvConfig)
    bonus: BonusConfig = field(default_factory=BonusConfig)
    ppo: PPOConfig = field(default_factory=PPOConfig)
    mixing: MixingConfig = field(default_factory=MixingConfig)
    steps: int = 10_000_000
    """Agent steps over all environments (Sec. 6.2: ten million)."""
    num_steps: int = 128
    """Steps of each environment between updates (Sec. 6.2)."""
    seed: int = 0
    """Of everything: networks, actions, environments, bonus."""
    device: str = "auto"
    """"cpu", "cuda" or "auto": a GPU if there is one."""
    threads: int = 1
    """Threads that compute, torch's and NumPy's. Results depend on it, so a resumed run uses the same."""
    root: Path = Path("runs")
    """Folder of runs."""
    name: str = ""
    """Name of the run's folder; empty: made from environment, bonus and seed."""
    checkpoint_every: int = 50
    """Updates between checkpoints."""
    wandb: bool = False
    """Log to Weights & Biases too: into the run's own folder, unless WANDB_MODE says otherwise."""
    quiet: bool = False
    """No display."""
