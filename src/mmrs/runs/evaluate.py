"""`mmrs eval`: the returns of a trained policy, with a confidence interval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console

from mmrs.envs.base import ResumableVectorEnv
from mmrs.errors import InputError, StorageError
from mmrs.ppo.policy import Policy
from mmrs.runs.build import build_envs
from mmrs.runs.config import EnvConfig, TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.load import load_policy
from mmrs.runs.play import Values, play
from mmrs.stats import mean_interval
from mmrs.storage.files import read_regular

_LIMIT = 1 << 26


@dataclass(frozen=True)
class EvalConfig:
    """Play whole games with a trained policy; mean and interval of the returns go to `evaluation.json` of the run."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    episodes: int = 30
    """Number of games to play to their ends."""
    deterministic: bool = False
    """Always take the likeliest action instead of sampling actions as in training."""
    num_envs: int = 8
    """Environments played side by side. Each plays a fixed share of the games, so short games are not preferred."""
    seed: int = 1_000_003
    """Seed of environments and actions; differs from the seeds of training."""
    step_limit: int = 30_000
    """Steps after which a game is cut; its return so far counts. A policy may walk in circles."""
    out: Path | None = None
    """File to write instead of the run's `evaluation.json`, which keeps every evaluation."""


@dataclass(frozen=True)
class ReturnSummary:
    """Mean, standard deviation and interval of a set of returns."""

    mean: float
    std: float | None
    """Standard deviation of the returns, not of their mean. A single return has neither this nor an interval."""
    low: float | None
    """Lower end of the 95 % bootstrap interval of the mean."""
    high: float | None
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: list[float]) -> ReturnSummary:
        """Mean of at least one value, standard deviation and interval of at least two."""
        array: NDArray[np.float64] = np.array(values, np.float64)
        mean, several = float(array.mean()), len(array) > 1
        low, high = mean_interval(array) if several else (None, None)
        return cls(mean, float(array.std(ddof=1)) if several else None, low, high, tuple(array.tolist()))

    def __str__(self) -> str:
        if self.std is None:
            return f"{self.mean:.2f} (a single return: no standard deviation, no interval)"
        return f"{self.mean:.2f} ± {self.std:.2f} (std), 95 % interval of the mean {self.low:.2f} to {self.high:.2f}"


@dataclass(frozen=True)
class Evaluation:
    """The result of one `mmrs eval`."""

    step: int
    """Step of the checkpoint that was played."""
    episodes: int
    deterministic: bool
    seed: int
    full_game: ReturnSummary
    """Returns of whole games (metric `game_return`)."""
    one_life: ReturnSummary | None
    """Returns of single lives (metric `episode_return`); None where no life ended before a game was cut."""
    lengths: tuple[int, ...]
    """Steps of each game."""
    cut: int
    """Games that reached the step limit."""

    def __str__(self) -> str:
        how = "likeliest actions" if self.deterministic else "sampled actions"
        lines = [f"step {self.step}, {self.episodes} game{'s' * (self.episodes > 1)}, {how}"]
        # Without lives the two are the same, and printing both would only raise questions.
        lives = self.one_life if self.one_life != self.full_game else None
        for title, summary in (("full game", self.full_game), ("one life", lives)):
            if summary:
                lines.append(f"  return{f' ({title})' if lives else ''}: {summary}")
        if self.cut:
            lines.append(f"  {self.cut} games were cut at the step limit; their returns so far count.")
        return "\n".join(lines)


@dataclass
class EpisodeStats:
    """The games played so far."""

    game_returns: list[float] = field(default_factory=list)
    episode_returns: list[float] = field(default_factory=list)
    """One per life in games with lives."""
    game_lengths: list[int] = field(default_factory=list)
    cut: int = 0
    """Games that reached the step limit."""


def evaluate(config: EvalConfig, console: Console | None = None) -> Evaluation:
    """Play, print the result and write it to the run's folder."""
    for name in ("episodes", "num_envs", "step_limit"):
        if getattr(config, name) < 1:
            raise InputError(f"{name} must be at least 1, not {getattr(config, name)}.")
    run = RunFolder.open(config.run)
    env = run.read_config(TrainConfig).env
    with ExitStack() as stack:
        envs = [stack.enter_context(closing(one_env(env))) for _ in range(min(config.num_envs, config.episodes))]
        policy, _, step = load_policy(run, envs[0], config.seed)
        stats = play_episodes(policy, envs, config)
    result = Evaluation(
        step,
        config.episodes,
        config.deterministic,
        config.seed,
        ReturnSummary.of(stats.game_returns),
        ReturnSummary.of(stats.episode_returns) if stats.episode_returns else None,
        tuple(stats.game_lengths),
        stats.cut,
    )
    _write(run, config.out, asdict(result))
    (console or Console()).print(str(result), highlight=False, markup=False, soft_wrap=True)
    return result


def one_env(config: EnvConfig, *, render: bool = False) -> ResumableVectorEnv:
    """One environment of a run, in this process."""
    return build_envs(replace(config, vectorization="sync", threads=1), num_envs=1, render=render)


def play_episodes(policy: Policy, envs: list[ResumableVectorEnv], config: EvalConfig) -> EpisodeStats:
    """Play `config.episodes` games, a fixed share in each environment."""
    share, rest = divmod(config.episodes, len(envs))
    players = [_Player(env, config.seed + i, share + (i < rest), config.step_limit) for i, env in enumerate(envs)]
    stats = EpisodeStats()
    for _ in play(policy, _Players(players, stats), config.seed, deterministic=config.deterministic):
        pass  # the players count what they play
    return stats


class _Observed(NamedTuple):
    obs: Values


class _Players:
    """Single environments as one vector environment that shrinks: a player whose share is done drops out."""

    def __init__(self, players: list[_Player], stats: EpisodeStats) -> None:
        self.playing, self.stats = players, stats

    def reset(self, _seed: int, /) -> Values:
        return np.concatenate([player.env.reset(player.seed) for player in self.playing])

    def step(self, actions: Values, /) -> _Observed:
        seen = [player.step(action, self.stats) for player, action in zip(self.playing, actions, strict=True)]
        kept = [i for i, player in enumerate(self.playing) if player.finished < player.share]
        self.playing = [self.playing[i] for i in kept]
        return _Observed(np.concatenate([seen[i] for i in kept]) if kept else seen[0][:0])


@dataclass
class _Player:
    """One environment that plays `share` games."""

    env: ResumableVectorEnv
    seed: int
    share: int
    step_limit: int
    total: float = 0.0
    length: int = 0
    finished: int = 0

    def step(self, action: Values, stats: EpisodeStats) -> Values:
        """Step, count what ended, and start anew after a cut; returns the next observation ``[1, *obs]``."""
        step = self.env.step(action[None])
        self.total, self.length = self.total + float(step.reward[0]), self.length + 1
        stats.episode_returns.extend(step.episodes.episode_returns)
        ended, cut = bool(step.episodes.game_returns), self.length >= self.step_limit
        if not ended and not cut:
            return step.obs
        stats.game_returns.append(step.episodes.game_returns[0] if ended else self.total)
        stats.game_lengths.append(self.length)
        stats.cut += not ended
        self.finished, self.total, self.length = self.finished + 1, 0.0, 0
        if ended or self.finished == self.share:
            return step.obs
        return self.env.reset(self.seed + 1_000_000 * self.finished)


def evaluations(path: Path) -> Iterator[dict[str, Any]]:
    """The evaluations in a file, oldest first."""
    if not path.exists():
        return
    try:
        yield from json.loads(read_regular(path, _LIMIT))["evaluations"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise StorageError(f"{path} is damaged ({error}). Move it away and evaluate again.") from error


def _write(run: RunFolder, out: Path | None, result: dict[str, Any]) -> None:
    path = out or run.evaluation
    run.write_json(path, {"evaluations": [*evaluations(path), result]})
