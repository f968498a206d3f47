"""`mmrs eval`: how well a trained policy plays, with an interval."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from numpy.typing import NDArray
from rich.console import Console

from mmrs.envs.base import TrainingEnvs
from mmrs.errors import InputError, StorageError
from mmrs.ppo.policy import Policy
from mmrs.runs.build import build_envs
from mmrs.runs.config import EnvConfig, TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.load import load_policy
from mmrs.stats import mean_interval
from mmrs.storage.files import read_regular

_LIMIT = 1 << 26


@dataclass(frozen=True)
class EvalConfig:
    """Play whole games with a trained policy; the returns' mean and interval go to `evaluation.json` of the run."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    episodes: int = 30
    """Whole games to play."""
    deterministic: bool = False
    """Always take the likeliest action, rather than draw actions as in training."""
    num_envs: int = 8
    """Games played side by side. Each plays its share to the end, so short games do not crowd out long ones."""
    seed: int = 1_000_003
    """Of games and actions; not the training's."""
    step_limit: int = 30_000
    """Steps after which a game is cut and counted with what it had: a policy may walk in circles for ever."""
    out: Path | None = None
    """File to write instead of the run's `evaluation.json`, which keeps every evaluation."""


@dataclass(frozen=True)
class Spread:
    """What a set of returns comes to."""

    mean: float
    std: float | None
    """Of the returns, not of their mean. None, as the interval, of a single return: it says nothing of others."""
    low: float | None
    """95 % bootstrap interval of the mean."""
    high: float | None
    values: tuple[float, ...]

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Mean of at least one value, standard deviation and interval of at least two."""
        array: NDArray[np.float64] = np.array(values, np.float64)
        mean, several = float(array.mean()), len(array) > 1
        low, high = mean_interval(array) if several else (None, None)  # type: ignore[arg-type]
        return cls(mean, float(array.std(ddof=1)) if several else None, low, high, tuple(array.tolist()))

    def __str__(self) -> str:
        if self.std is None:
            return f"{self.mean:.2f} (a single one: no spread, no interval)"
        return f"{self.mean:.2f} ± {self.std:.2f} (std), 95 % interval of the mean {self.low:.2f} to {self.high:.2f}"


@dataclass(frozen=True)
class Evaluation:
    """The result of one `mmrs eval`."""

    step: int
    """Of the checkpoint that was played."""
    episodes: int
    deterministic: bool
    seed: int
    full_game: Spread
    one_life: Spread | None
    """None where no life ended before a game was cut."""
    lengths: tuple[int, ...]
    """Steps of each game."""
    cut: int
    """Games that reached the step limit."""


@dataclass
class Games:
    """What was played so far."""

    games: list[float] = field(default_factory=list)
    lives: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    cut: int = 0


def evaluate(config: EvalConfig, console: Console | None = None) -> Evaluation:
    """Play, report and write down."""
    for name in ("episodes", "num_envs", "step_limit"):
        if getattr(config, name) < 1:
            raise InputError(f"{name} must be at least 1, not {getattr(config, name)}.")
    run = RunFolder.open(config.run)
    env = run.read_config(TrainConfig).env
    with ExitStack() as stack:
        envs = [stack.enter_context(closing(one_env(env))) for _ in range(min(config.num_envs, config.episodes))]
        policy, _, step = load_policy(run, envs[0], config.seed)
        played = play(policy, envs, config)
    result = Evaluation(
        step,
        config.episodes,
        config.deterministic,
        config.seed,
        Spread.of(played.games),
        Spread.of(played.lives) if played.lives else None,
        tuple(played.lengths),
        played.cut,
    )
    _write(run, config.out, asdict(result))
    _show(result, console or Console())
    return result


def one_env(config: EnvConfig, *, render: bool = False) -> TrainingEnvs:
    """One environment of a run, in this process."""
    return build_envs(replace(config, vectorization="sync", threads=1), num_envs=1, render=render)


def play(policy: Policy, envs: list[TrainingEnvs], config: EvalConfig) -> Games:
    """Play `config.episodes` games, a fixed share in each environment."""
    played, count = Games(), len(envs)
    shares = [config.episodes // count + (i < config.episodes % count) for i in range(count)]
    players = {i: _play_one(envs[i], config.seed + i, shares[i], config.step_limit, played) for i in range(count)}
    # Each player yields what it sees and is sent the action: one call of the network serves all of them.
    seen = {i: next(player) for i, player in players.items()}
    while seen:
        actions = policy.act(np.concatenate(list(seen.values())), config.deterministic)
        chosen = dict(zip(list(seen), actions, strict=True))
        for i, action in chosen.items():
            try:
                seen[i] = players[i].send(action[None])
            except StopIteration:
                del seen[i]
    return played


def _play_one(envs: TrainingEnvs, seed: int, share: int, step_limit: int, played: Games) -> Any:
    obs, total, length, finished = envs.reset(seed), 0.0, 0, 0
    while finished < share:
        step = envs.step((yield obs))
        obs, total, length = step.obs, total + float(step.reward[0]), length + 1
        played.lives.extend(step.episodes.life_returns)
        ended, cut = bool(step.episodes.game_returns), length >= step_limit
        if ended or cut:
            played.games.append(step.episodes.game_returns[0] if ended else total)
            played.lengths.append(length)
            played.cut += not ended
            finished, total, length = finished + 1, 0.0, 0
            if not ended and finished < share:
                obs = envs.reset(seed + 1_000_000 * finished)


def evaluations(path: Path) -> Iterator[dict[str, Any]]:
    """The evaluations a file holds, oldest first."""
    if not path.exists():
        return
    try:
        yield from json.loads(read_regular(path, _LIMIT))["evaluations"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise StorageError(f"{path} is damaged ({error}). Move it away and evaluate again.") from error


def _write(run: RunFolder, out: Path | None, result: dict[str, Any]) -> None:
    path = out or run.evaluation
    run.write_json(path, {"evaluations": [*evaluations(path), result]})


def _show(result: Evaluation, console: Console) -> None:
    how = "likeliest actions" if result.deterministic else "drawn actions"
    lines = [f"step {result.step}, {result.episodes} game{'s' * (result.episodes > 1)}, {how}"]
    # Where there are no lives the two are the same, and saying it twice would only raise questions.
    lives = result.one_life if result.one_life != result.full_game else None
    for title, spread in (("full game", result.full_game), ("one life", lives)):
        if spread:
            lines.append(f"  return ({title}): {spread}")
    if result.cut:
        lines.append(f"  {result.cut} games were cut at the step limit and counted as they were.")
    console.print("\n".join(lines), highlight=False, soft_wrap=True)
