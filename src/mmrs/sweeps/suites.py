"""Suites: the experiments of the paper and a few of ours, each a list of runs (environment, method, seed)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from mmrs import plugins
from mmrs.envs.atari import ATARI_GAMES
from mmrs.envs.bullet import BULLET_GAMES
from mmrs.envs.registry import find_family
from mmrs.errors import InputError, did_you_mean
from mmrs.paper.gridworld import GridWorldConfig
from mmrs.paper.maze.experiment import MazeConfig
from mmrs.paper.maze.options import METHODS as MAZE_METHODS
from mmrs.rewards.registry import reward_names
from mmrs.runs.config import BonusConfig, EnvConfig, TrainConfig
from mmrs.runs.config_json import to_json
from mmrs.runs.folder import slug
from mmrs.runs.presets import VECTOR, default_bonus, default_config

COMPARED = ("ppo", "re3", "ride", "rnd", "mmrs")
"""The methods of the paper's tables, in its order."""
MAZES_PER_SEED = 100
"""Number of mazes per seed of the maze suite (Sec. 6.1 simulates a hundred)."""
Config = TrainConfig | MazeConfig | GridWorldConfig


@dataclass(frozen=True)
class RunSpec:
    """One run of a sweep."""

    name: str
    """Name of its folder."""
    kind: str
    """`train`, `maze` or `gridworld`."""
    env: str
    method: str
    seed: int
    config: dict[str, Any]
    """Configuration of the run, as JSON."""


@dataclass(frozen=True)
class Suite:
    """Environments x methods x seeds, and the configuration of each run."""

    name: str
    about: str
    """One line for `mmrs sweep --help` and the docs."""
    games: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    configure: Callable[[str, str, int], Config]
    """Makes the configuration from environment, method and seed."""
    kind: str = "train"
    allowed: tuple[str, ...] = ()
    """Methods that may be selected beyond `methods`; a suite of trainings takes every method of training anyway."""


def training_method(env: str, method: str, seed: int) -> TrainConfig:
    """PPO with the bonus of a method, with the preset of the environment."""
    return replace(default_config(env), bonus=method_bonus(env, method), seed=seed)


def method_bonus(env: str, method: str) -> BonusConfig:
    """The bonus of a method in an environment."""
    if method == "mmrs-paper":  # the reward as printed, with the printed weights
        return BonusConfig("mmrs", options=(f"preset={find_family(env).paper_preset}",))
    return default_bonus("none" if method == "ppo" else method)


def training_methods() -> tuple[str, ...]:
    """What can be trained and compared: PPO without a bonus, the reward as printed, and every known reward."""
    return ("ppo", "mmrs-paper", *reward_names())


def _vanishing(env: str, method: str, seed: int) -> TrainConfig:
    # A bonus divided by its own standard deviation cannot be seen to vanish, so here none is divided.
    if method in ("ppo", "mmrs", "mmrs-paper"):
        return training_method(env, "mmrs-paper" if method == "mmrs" else method, seed)
    # Unstated: the weights of the rivals; 0.1 is what Sec. 6.2 gives the terms of MMRS.
    return replace(training_method(env, method, seed), bonus=BonusConfig(method, weight=0.1))


def _smoke(env: str, method: str, seed: int) -> TrainConfig:
    config = replace(training_method(env, method, seed), ppo=VECTOR.ppo, num_steps=32, steps=2048, checkpoint_every=2)
    return replace(config, env=EnvConfig(env, num_envs=4))


def _maze(env: str, method: str, seed: int) -> MazeConfig:
    kind, size = env.split()
    first = seed * MAZES_PER_SEED
    return MazeConfig(sizes=(int(size),), kinds=(kind,), methods=(method,), mazes=MAZES_PER_SEED, first_seed=first)


def _gridworld(_env: str, _method: str, _seed: int) -> GridWorldConfig:
    return GridWorldConfig()


SUITES = {
    suite.name: suite
    for suite in (
        Suite("smoke", "two small worlds, a few seconds", ("CartPole-v1", "mmrs/Maze2D-v0"), ("ppo", "rnd", "mmrs"), 2,
              _smoke),
        Suite("gridworld", "the two walks of Eq. (12) in exact fractions", ("GridWorld",), ("jfi",), 1, _gridworld,
              kind="gridworld"),
        Suite("maze", "Sec. 6.1: steps until every cell was seen; one hundred mazes per seed",
              tuple(f"{kind} {size}" for kind in ("plus", "perfect") for size in (5, 10, 20)),
              ("jfi", "entropy", "coverage", "count_bonus", "count_penalty", "exp_decay"), 10, _maze,
              kind="maze", allowed=MAZE_METHODS),
        Suite("rooms", "three small worlds with a far goal: a key and a door, a new map each time, a noisy television",
              ("mmrs/KeyRooms-v0", "mmrs/MultiRooms-v0", "mmrs/NoisyTV-v0"), COMPARED, 8, training_method),
        Suite("atari", "Sec. 6.2: twenty games, ten million steps, eight seeds", ATARI_GAMES, COMPARED, 8,
              training_method),
        Suite("bullet", "Sec. 6.3: six games, ten million steps, eight seeds", BULLET_GAMES, COMPARED, 8,
              training_method),
        Suite("vanishing", "does the bonus vanish? each method without normalization, on three Atari games",
              ("ALE/Alien-v5", "ALE/Breakout-v5", "ALE/Seaquest-v5"), ("re3", "ride", "rnd", "mmrs"), 3,
              _vanishing),
    )
}  # fmt: skip


def find_suite(name: str) -> Suite:
    """The suite of this name."""
    if name not in SUITES:
        raise InputError(f"there is no suite {name!r}. {did_you_mean(name, SUITES)}")
    return SUITES[name]


def expand_suite(
    suite: Suite,
    *,
    steps: int | None = None,
    seeds: int | None = None,
    games: Iterable[str] = (),
    methods: Iterable[str] = (),
    imports: Iterable[str] = (),
) -> tuple[RunSpec, ...]:
    """The runs of a suite, whole or scaled down.

    Args:
        suite: the suite.
        steps: agent steps per run; None: the suite's.
        seeds: number of seeds, from 0; None: the suite's.
        games: environments of the suite, by id or by plain name ("Alien"), or any other Gymnasium id. Empty: all.
        methods: "ppo", "mmrs-paper" or a reward. Empty: the suite's.
        imports: modules of the user, imported here and by every run.
    """
    imports = plugins.locate(tuple(imports))
    plugins.load(imports)
    if steps is not None and suite.kind != "train":
        raise InputError(f"the suite {suite.name} has no steps to choose: its runs end when they are done.")
    for name, value in (("steps", steps), ("seeds", seeds)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}, expected at least 1.")
    chosen_games = tuple(dict.fromkeys(_game(suite, game) for game in games)) or suite.games
    chosen_methods = tuple(dict.fromkeys(methods)) or suite.methods
    extra = training_methods() if suite.kind == "train" else ()
    known = tuple(dict.fromkeys((*suite.methods, *suite.allowed, *extra)))
    for method in chosen_methods:
        if method not in known:
            raise InputError(f"the suite {suite.name} has no method {method!r}. {did_you_mean(method, known)}")
    number = suite.seeds if seeds is None else seeds
    specs = tuple(
        _make_spec(suite, game, method, seed, steps, imports)
        for seed in range(number)
        for game in chosen_games
        for method in chosen_methods
    )
    _require_unique_names(specs)
    return specs


def _require_unique_names(specs: Iterable[RunSpec]) -> None:
    names: dict[str, RunSpec] = {}
    for spec in specs:
        other = names.setdefault(spec.name, spec)
        if other is not spec:
            raise InputError(
                f"{other.env} and {spec.env} would share the folder {spec.name}. Sweep them one at a time, with --out."
            )


def start_order(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """The runs in the order in which they are best started.

    Seed by seed, so that a sweep that is stopped early has complete tables of fewer seeds. Within a seed the last
    method first, which is the most expensive one in the suites, so that short runs fill the gaps at the end.
    """
    specs = list(specs)
    index = {method: number for number, method in enumerate(dict.fromkeys(spec.method for spec in specs))}
    return sorted(specs, key=lambda spec: (spec.seed, -index[spec.method]))


def _make_spec(suite: Suite, game: str, method: str, seed: int, steps: int | None, imports: tuple[str, ...]) -> RunSpec:
    config = suite.configure(game, method, seed)
    name = slug(game, method, str(seed))
    if isinstance(config, TrainConfig):
        steps = config.steps if steps is None else steps
        config = replace(config, name=name, quiet=True, steps=steps, imports=imports)
    return RunSpec(name, suite.kind, game, method, seed, to_json(config))


def _game(suite: Suite, name: str) -> str:
    """The id of an environment: one of the suite, by its id or plain name, else any that can be trained."""
    if name in suite.games:
        return name
    for game in suite.games:
        plain = game.removeprefix("ALE/").partition("BulletEnv")[0].partition("-v")[0]
        if plain.lower() == name.lower():
            return game
    if suite.kind != "train":
        raise InputError(f"the suite {suite.name} has no {name!r}. {did_you_mean(name, suite.games)}")
    find_family(name)  # raises, with a hint, where there is no such environment
    return name
