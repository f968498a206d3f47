"""The Python interface: train, resume, load and evaluate runs. `import mmrs` offers these names and loads them late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.console import Console

from mmrs import plugins
from mmrs.errors import InputError, MissingExtraError
from mmrs.ppo.policy import Policy
from mmrs.ppo.ppo import Loss
from mmrs.ppo.trainer import Row
from mmrs.runs.build import option_text
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import from_json, to_json
from mmrs.runs.evaluate import EvalConfig, Evaluation, one_env
from mmrs.runs.evaluate import evaluate as _evaluate
from mmrs.runs.folder import RunFolder
from mmrs.runs.history import is_finished
from mmrs.runs.load import load_policy
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.presets import default_config
from mmrs.runs.train import Hooks, Rows, resume_rows, start_rows

if TYPE_CHECKING:
    import pandas as pd

Callback = Callable[[Row], object]
RunLike: TypeAlias = "str | Path | Run"
_SIGINT_CODE = 130


def train(
    env: str | Mapping[str, Any] | None = None,
    bonus: str | Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    loss: Loss | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Any,
) -> Run:
    """Train an agent in a new run folder, as `mmrs train` does; returns the run.

    Args:
        env: id of the environment, or a mapping of the fields of `env` with its `id`. None: that of `mmrs train`.
        bonus: name of the reward, or a mapping of the fields of `bonus` with its `name`; "none" for plain PPO.
        preset: defaults to start from; None: those of the environment.
        loss: loss of a minibatch in place of PPO's (`mmrs.ppo.ppo.ppo_loss`).
        callbacks: called with each row of metrics; the run saves and stops when one returns True.
        fields: any other field of the configuration: `steps=10_000`, `ppo={"learning_rate": 1e-3}` or
            `**{"ppo.learning_rate": 1e-3}`.

    Raises:
        KeyboardInterrupt: Ctrl-C or the stop button of a notebook; the run was saved before.
    """
    with train_iter(env, bonus, preset=preset, loss=loss, callbacks=callbacks, **fields) as training:
        return training.finish()


def train_iter(
    env: str | Mapping[str, Any] | None = None,
    bonus: str | Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    loss: Loss | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Any,
) -> Training:
    """As `train`, but returns an iterator over the rows; training goes on while you ask for the next one."""
    config = _configured(env, bonus, preset, fields)
    return Training(start_rows(config, Hooks(loss, tuple(callbacks), release_signals=True)))


def resume(
    run: RunLike,
    *,
    steps: int | None = None,
    loss: Loss | None = None,
    callbacks: Sequence[Callback] = (),
    quiet: bool = False,
) -> Run:
    """Continue a run from its last checkpoint, or make it longer; returns the run.

    Args:
        run: the run, or its folder.
        steps: new number of steps of the whole run; None: as before, and a finished run is left as it is.
        loss: the loss that the run was started with, if it had one of its own.
        callbacks: as in `train`.
        quiet: show no progress.
    """
    hooks = Hooks(loss, tuple(callbacks), release_signals=True)
    with Training(resume_rows(_path(run), steps=_whole(steps), quiet=quiet, hooks=hooks)) as training:
        return training.finish()


def load(run: RunLike) -> Run:
    """A run from its folder: configuration, metrics and policy."""
    return Run(RunFolder.open(_path(run)))


def evaluate(run: RunLike, episodes: int = 30, **options: Any) -> Evaluation:
    """Play whole games with a trained policy, as `mmrs eval` does; returns the summary that it prints.

    Args:
        run: the run, or its folder. Its `evaluation.json` keeps the result.
        episodes: number of games.
        options: other fields of `mmrs.runs.evaluate.EvalConfig`: deterministic, num_envs, seed, step_limit, out.
    """
    data = to_json(EvalConfig(_path(run), episodes=episodes)) | to_json(options)
    return _evaluate(from_json(EvalConfig, data, "evaluate"), Console(quiet=True))


class Training(Iterator[Row]):
    """A run in training: yields one row of metrics per update. Leaving a loop early, or `close`, saves and stops it."""

    path: Path
    """Folder of the run."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.path = next(rows).path

    def __next__(self) -> Row:
        try:
            row: Row = next(self._rows)
        except StopIteration as end:
            if end.value == _SIGINT_CODE:
                raise KeyboardInterrupt from None
            if end.value:
                raise SystemExit(end.value) from None
            raise
        return row

    def finish(self) -> Run:
        """Train to the end; returns the run."""
        for _ in self:
            pass
        return load(self.path)

    def close(self) -> None:
        """Save and stop; nothing happens where the run has ended."""
        self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Run:
    """A run in its folder. Metrics and policy are read once, when they are first asked for."""

    def __init__(self, folder: RunFolder) -> None:
        self.path = folder.path
        self.config = folder.read_config(TrainConfig)

    def __repr__(self) -> str:
        config = self.config
        return f"<Run {self.path}: {config.bonus.name} on {config.env.id}, seed {config.seed}, {config.steps} steps>"

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return is_finished(self.path)

    @cached_property
    def metrics(self) -> dict[str, NDArray[Any]]:
        """The columns of `metrics.jsonl`, one value per update; NaN where a row lacks the metric."""
        path = self.path / "metrics.jsonl"
        rows = read_metrics(path).rows if path.exists() else []
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: _column([row.get(name) for row in rows]) for name in names}

    def dataframe(self) -> pd.DataFrame:
        """The metrics as a table of pandas, indexed by step."""
        try:
            import pandas  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("pandas", "pandas") from error
        return pandas.DataFrame(self.metrics).set_index("step", drop=False)

    @cached_property
    def policy(self) -> RunPolicy:
        """The policy of the newest checkpoint."""
        with closing(one_env(self.config.env)) as envs:
            policy, _, step = load_policy(RunFolder.open(self.path), envs)
            return RunPolicy(policy, envs.observation_space, step)


class RunPolicy:
    """A trained policy that acts on observations as the environment gives them."""

    def __init__(self, policy: Policy, observation_space: Any, step: int) -> None:
        self.network, self.step = policy.network, step
        self.observation_space, self.action_space = observation_space, policy.action_space
        self._policy = policy

    def act(self, obs: ArrayLike, *, deterministic: bool = False) -> NDArray[Any]:
        """The action for one observation, or the actions ``[N, *act]`` for a batch ``[N, *obs]``.

        Args:
            obs: observations of the run's environments, normalized here as in training.
            deterministic: take the likeliest action instead of sampling one.
        """
        space, values = self.observation_space, np.asarray(obs)
        if not np.can_cast(values.dtype, space.dtype, "same_kind"):
            raise InputError(f"observations are of type {values.dtype}, expected {space.dtype}, as in {space}.")
        single = values.shape == space.shape
        batch = values[None] if single else values
        if batch.shape[1:] != space.shape or not batch.ndim or not len(batch):
            expected = f"{space.shape} or (N, *{space.shape})"
            raise InputError(f"observations have the shape {values.shape}, expected {expected}.")
        actions = self._policy.act(batch.astype(space.dtype), deterministic)
        return actions[0] if single else actions


def _path(run: RunLike) -> Path:
    return run.path if isinstance(run, Run) else Path(run)


def _column(values: list[Any]) -> NDArray[Any]:
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if whole:
        return np.array(values, np.int64)
    return np.array([value if isinstance(value, int | float) else np.nan for value in values], np.float64)


def _configured(env: Any, bonus: Any, preset: str | None, fields: Mapping[str, Any]) -> TrainConfig:
    """The configuration for an environment, a bonus and a preset, with some of its fields replaced."""
    changes = _nested({**_section("env", "id", env), **_section("bonus", "name", bonus), **fields})
    given = changes["env"] if isinstance(changes.get("env"), Mapping) else {}
    made = {key: given[key] for key in ("kwargs", "wrappers") if key in given}
    env = _name(changes, "env", "id")
    modules = plugins.local_modules((env or "", *made.get("wrappers", ())))
    if isinstance(changes.get("imports", ()), str):
        raise InputError(f"imports is {changes['imports']!r}, expected a list of modules.")
    imports = plugins.locate((*changes.get("imports", ()), *modules))
    plugins.load(imports)  # first: defaults may depend on what they register
    if "steps" in changes:
        changes["steps"] = _whole(changes["steps"])
    data = to_json(default_config(env, _name(changes, "bonus", "name"), preset, **made))
    return from_json(TrainConfig, _merged(data, to_json({**changes, "imports": imports})), "config")


def _section(name: str, key: str, value: Any) -> dict[str, Any]:
    """What `env=` or `bonus=` stands for: a mapping of fields, or the one field that names it."""
    if value is None:
        return {}
    return {name: value if isinstance(value, Mapping) else {key: value}}


def _nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`{"ppo.epochs": 4, "ppo": {"clip": 0.1}}` as `{"ppo": {"epochs": 4, "clip": 0.1}}`."""
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        first, _, rest = name.partition(".")
        plain: Any = {rest: value} if rest else value
        if (first, rest) == ("options", "") and isinstance(value, Mapping):
            plain = [_option(option, chosen) for option, chosen in value.items()]
        elif isinstance(plain, Mapping):
            plain = _nested(plain)
        elif isinstance(plain, np.generic):
            plain = plain.item()
        nested = _merged(nested, {first: plain})
    return nested


def _merged(old: Any, new: Any) -> Any:
    """Mappings merged at every depth; anything else is replaced."""
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    return {**old, **{name: _merged(old.get(name), value) for name, value in new.items()}}


def _option(name: str, value: Any) -> str:
    """An option of a reward as `name=value`, which the configuration holds."""
    return f"{name}={option_text(value.item() if isinstance(value, np.generic) else value)}"


def _name(changes: Mapping[str, Any], section: str, key: str) -> str | None:
    """A name that the defaults depend on; what is not a name is refused later, with its place."""
    fields = changes.get(section)
    name = fields.get(key) if isinstance(fields, Mapping) else None
    return name if isinstance(name, str) else None


def _whole(value: Any) -> Any:
    """1e6 as a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
