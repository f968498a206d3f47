"""`mmrs train`: start, checkpoint, stop and resume a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mmrs import plugins
from mmrs.errors import InputError, MissingExtraError, MmrsError, TrainingError, ensure_period
from mmrs.ppo.ppo import Loss, ppo_loss
from mmrs.ppo.trainer import Row, Trainer
from mmrs.runs.build import bonus_settings, build_trainer, qualified_name
from mmrs.runs.config import TrainConfig, check
from mmrs.runs.config_json import require_same, require_same_bonus, to_json
from mmrs.runs.console import resilient_console
from mmrs.runs.folder import RunFolder, slug
from mmrs.runs.history import is_finished, mark_extended, record_attempt
from mmrs.runs.load import fitting, load_checkpoint
from mmrs.runs.loggers import JsonlLogger, MetricsLogger, TensorBoardLogger, WandbLogger, require_wandb
from mmrs.runs.metrics_log import MetricsFile, Position
from mmrs.runs.progress import Display
from mmrs.runs.signals import StopSignals, resume_hint
from mmrs.runs.upgrade import SCHEMA
from mmrs.storage import checkpoint as store


@dataclass(frozen=True)
class Hooks:
    """What a Python program adds to a run."""

    loss: Loss | None = None
    """Loss of a minibatch; None: that of PPO."""
    callbacks: tuple[Callable[[Row], object], ...] = ()
    """Called with each row; training saves and stops when one of them returns True."""
    release_signals: bool = False
    """Handle Ctrl-C as usual while the caller has a row, and save and stop on it only during an update."""

    def __post_init__(self) -> None:
        for name, functions in (("loss", (self.loss,)), ("callbacks", self.callbacks)):
            for function in functions:
                if function is not None and not callable(function):
                    raise InputError(f"{name} has {function!r}, expected a function.")


NO_HOOKS = Hooks()
Rows = Generator[Any, None, int]
"""Yields the folder of a run, then its rows; returns the exit code: 0, or that of the signal that stopped it."""


def train(config: TrainConfig) -> tuple[RunFolder, int]:
    """Start a run; returns its folder and the exit code (0, or that of the signal that stopped it)."""
    rows = start_rows(config)
    return next(rows), _drain(rows)


def resume(path: Path, *, quiet: bool = False, steps: int | None = None) -> tuple[RunFolder, int]:
    """Continue a run from its last good checkpoint.

    Args:
        path: folder of the run.
        quiet: show no progress.
        steps: new number of steps of the whole run. None: a finished run is left as it is.
    """
    rows = resume_rows(path, steps=steps, quiet=quiet)
    return next(rows), _drain(rows)


def start_rows(config: TrainConfig, hooks: Hooks = NO_HOOKS) -> Rows:
    """Start a run; closing the generator saves and stops it."""
    _check(config)
    # First: a misspelled name must not leave an empty folder behind.
    trainer = build_trainer(config, hooks.loss or ppo_loss)
    with contextlib.ExitStack() as unstarted:
        unstarted.callback(trainer.collector.close)
        run = RunFolder.create(config.root, config.name or default_name(config))
        run.write_config(config, bonus_settings(config), hooks.loss and qualified_name(hooks.loss))
        with run.exclusive():
            yield run
            unstarted.pop_all()  # from here on, `_rows` closes the environments
            return (yield from _rows(run, config, trainer, None, hooks=hooks))


def resume_rows(path: Path, *, steps: int | None = None, quiet: bool = False, hooks: Hooks = NO_HOOKS) -> Rows:
    """Continue a run from its last good checkpoint; closing the generator saves and stops it."""
    run = RunFolder.open(path)
    with run.exclusive():
        if steps is not None or not is_finished(run.path):
            _require_loss(run, hooks.loss)
        if steps is not None:
            _extend(run, steps)
        yield run
        return (yield from _continue(run, quiet=quiet, hooks=hooks))


def _extend(run: RunFolder, steps: int) -> None:
    """Make a run longer. Schedules count from the start of the run and end at its new end."""
    config = run.read_config(TrainConfig)
    if steps == config.steps:
        return
    if steps < config.steps:
        raise InputError(f"the run has {config.steps} steps and can only be made longer: steps is {steps}.")
    longer = replace(config, steps=steps)
    check(longer)
    require_same_bonus(run.read_bonus(), bonus_settings(config), run.path)
    # The event first, the configuration last: a run that is killed in between is as long as before.
    mark_extended(run.path, config.steps, steps)
    run.extend(longer, bonus_settings(longer))


def _require_loss(run: RunFolder, loss: Loss | None) -> None:
    """Refuse to continue a run with another loss than it had."""
    saved, now = run.read_loss(), loss and qualified_name(loss)
    if saved == now:
        return
    if saved is None:
        raise InputError(f"{run.path} was trained with PPO's own loss and cannot go on with {now}. Leave loss out.")
    raise InputError(
        f"{run.path} was trained with a loss of its own, {saved}, and {now or 'there is none'} here. Only Python can "
        f"pass it: mmrs.resume({str(run.path)!r}, loss={saved.rpartition('.')[2]})"
    )


def run_to_completion(config: TrainConfig, *, command: str | None = None) -> int:
    """Start the run, continue it, or leave it as it is if it has finished. Returns the exit code.

    Args:
        config: configuration of the run, with its name.
        command: command to record; None: that of this process.

    Raises:
        RunBusyError: another process is training it.
        InputError: the folder holds a run of another configuration.
    """
    _check(config)
    settings = bonus_settings(config)  # first: a misspelled reward must not leave a folder behind
    run = RunFolder.create(config.root, config.name or default_name(config), exist_ok=True)
    with run.exclusive():
        if is_finished(run.path):
            return 0
        if not run.config.exists():
            run.write_config(config, settings)
        require_same(run.read_config(TrainConfig), config, run.path)
        return continue_run(RunFolder.open(run.path), quiet=True, command=command)


def continue_run(run: RunFolder, *, quiet: bool = False, command: str | None = None) -> int:
    """Continue from the last good checkpoint, or from the start where there is none; the caller has locked the run."""
    _require_loss(run, None)
    return _drain(_continue(run, quiet=quiet, command=command))


def _drain(rows: Rows) -> int:
    """Train to the end; returns the exit code."""
    while True:
        try:
            next(rows)
        except StopIteration as end:
            return int(end.value)


def _continue(run: RunFolder, *, quiet: bool, command: str | None = None, hooks: Hooks = NO_HOOKS) -> Rows:
    config = run.read_config(TrainConfig)
    if not is_finished(run.path):
        require_same_bonus(run.read_bonus(), bonus_settings(config), run.path)
    trainer = build_trainer(config, hooks.loss or ppo_loss)
    position = Position(0, 0)
    try:
        if store.checkpoints(run.checkpoints):
            _, tree = load_checkpoint(run)
            with fitting(run):
                trainer.restore(tree["trainer"])
                position = Position(*tree["metrics"])
    except BaseException:
        trainer.collector.close()
        raise
    return (yield from _rows(run, config, trainer, position, quiet=quiet, command=command, hooks=hooks))


def _check(config: TrainConfig) -> None:
    """Refuse what is known to fail before the folder is made: the next try with the same name needs a free one."""
    check(config)
    plugins.load(config.imports)
    if config.wandb:
        require_wandb()


def default_name(config: TrainConfig) -> str:
    """Name of a run's folder: environment, bonus and seed."""
    return slug(config.env.id, config.bonus.name, str(config.seed))


def _rows(
    run: RunFolder,
    config: TrainConfig,
    trainer: Trainer,
    position: Position | None,
    quiet: bool = False,
    command: str | None = None,
    hooks: Hooks = NO_HOOKS,
) -> Rows:
    """Train, log and yield each row, save when a checkpoint is due, stop when a signal, a callback or the caller asks.

    It saves after the caller had the row.
    """
    quiet = quiet or config.quiet
    with contextlib.ExitStack() as stack:
        display = Display({run.name: config.steps}, quiet=quiet)
        # First in, last out: a signal must not interrupt what is closed at the end.
        stop = stack.enter_context(StopSignals(display.announce, lambda: display.update_left(run.name)))
        stack.callback(trainer.collector.close)
        finish = stack.enter_context(record_attempt(run.path, lambda: _step(trainer), command))
        store.remove_leftovers(run.checkpoints)
        metrics = stack.enter_context(MetricsFile(run.metrics, position))
        loggers = _open_loggers(run, config, metrics, trainer, quiet)
        for logger in loggers:
            stack.callback(logger.close)
        stack.enter_context(display)
        save = _saver(run, trainer, metrics)
        try:
            for row in trainer:
                for logger in loggers:
                    logger.write(row, row["step"])
                display.update(run.name, row)
                asked = _asks_to_stop(hooks, row)
                try:
                    with stop.released() if hooks.release_signals else contextlib.nullcontext():
                        yield row
                except GeneratorExit:  # the caller's loop has ended
                    asked = True
                last = trainer.updates == trainer.total_updates
                due = asked or stop.requested or last or trainer.updates % config.checkpoint_every == 0
                if due:
                    save()
                if due and (asked or stop.requested):  # a signal after `due` was set waits for the next update
                    break
        except MmrsError as error:
            raise TrainingError(f"{ensure_period(error)} {_last_good(run)}") from error
        if trainer.updates < trainer.total_updates:
            loss = hooks.loss and qualified_name(hooks.loss)
            display.set_status(run.name, "stopped", resume_hint(run.path, _step(trainer), loss))
        else:
            finish()
            display.set_status(run.name, "done", f"done: {run.path}")
    return stop.exit_code


def _asks_to_stop(hooks: Hooks, row: Row) -> bool:
    """Call every callback. Only True stops: some functions return a number by the way."""
    answers = [callback(row) for callback in hooks.callbacks]
    return any(isinstance(answer, bool | np.bool_) and bool(answer) for answer in answers)


def _step(trainer: Trainer) -> int:
    return trainer.updates * trainer.steps_per_update


def _saver(run: RunFolder, trainer: Trainer, metrics: MetricsFile) -> Callable[[], None]:
    def save() -> None:
        tree = {"schema": SCHEMA, "trainer": trainer.state(), "metrics": list(metrics.position())}
        try:
            store.save(run.checkpoints, _step(trainer), tree)
        except InputError as error:  # such as a value that is not finite
            raise TrainingError(f"nothing was saved at step {_step(trainer)}: {error}") from error

    return save


def _open_loggers(
    run: RunFolder, config: TrainConfig, metrics: MetricsFile, trainer: Trainer, quiet: bool
) -> list[MetricsLogger]:
    loggers: list[MetricsLogger] = [JsonlLogger(metrics)]
    try:
        loggers.append(TensorBoardLogger(run, _step(trainer) or None))
    except MissingExtraError as error:
        resilient_console().print(f"No TensorBoard events: {error}", highlight=False, markup=False, soft_wrap=True)
    if config.wandb:
        loggers.append(WandbLogger(run, to_json(config), quiet))
    return loggers


def _last_good(run: RunFolder) -> str:
    saved = store.checkpoints(run.checkpoints)
    if not saved:
        return "The run has no checkpoint yet."
    step = saved[-1].step
    return f"The last checkpoint, of step {step}, is untouched; go on from it with: mmrs train --resume {run.path}"
