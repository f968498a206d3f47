"""`mmrs train`: start, checkpoint, stop and resume a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from mmrs.errors import InputError, MissingExtraError, MmrsError, TrainingError, ensure_period
from mmrs.ppo.trainer import Trainer
from mmrs.runs.build import bonus_settings, build_trainer
from mmrs.runs.config import TrainConfig, check
from mmrs.runs.config_json import require_same, require_same_bonus, to_json
from mmrs.runs.console import resilient_console
from mmrs.runs.folder import RunFolder, slug
from mmrs.runs.history import is_finished, record_attempt
from mmrs.runs.load import fitting, load_checkpoint
from mmrs.runs.loggers import JsonlLogger, MetricsLogger, TensorBoardLogger, WandbLogger, require_wandb
from mmrs.runs.metrics_log import MetricsFile, Position
from mmrs.runs.progress import Display
from mmrs.runs.signals import StopSignals, resume_hint
from mmrs.runs.upgrade import SCHEMA
from mmrs.storage import checkpoint as store


def train(config: TrainConfig) -> tuple[RunFolder, int]:
    """Start a run; returns its folder and the exit code (0, or that of the signal that stopped it)."""
    _check(config)
    trainer = build_trainer(config)  # first: a misspelled name must not leave an empty folder behind
    try:
        run = RunFolder.create(config.root, config.name or default_name(config))
        run.write_config(config, bonus_settings(config))
    except BaseException:
        trainer.collector.close()
        raise
    with run.exclusive():
        return run, _train(run, config, trainer, None)


def resume(path: Path, *, quiet: bool = False) -> tuple[RunFolder, int]:
    """Continue a run from its last good checkpoint; a finished run is left as it is."""
    run = RunFolder.open(path)
    with run.exclusive():
        return run, continue_run(run, quiet=quiet)


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
    config = run.read_config(TrainConfig)
    if not is_finished(run.path):
        require_same_bonus(run.read_bonus(), bonus_settings(config), run.path)
    trainer = build_trainer(config)
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
    return _train(run, config, trainer, position, quiet=quiet, command=command)


def _check(config: TrainConfig) -> None:
    """Refuse what is known to fail before the folder is made: the next try with the same name needs a free one."""
    check(config)
    if config.wandb:
        require_wandb()


def default_name(config: TrainConfig) -> str:
    """Name of a run's folder: environment, bonus and seed."""
    return slug(config.env.id, config.bonus.name, str(config.seed))


def _train(
    run: RunFolder,
    config: TrainConfig,
    trainer: Trainer,
    position: Position | None,
    quiet: bool = False,
    command: str | None = None,
) -> int:
    """Train, log each row, save when a checkpoint is due, stop when a signal came."""
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
                last = trainer.updates == trainer.total_updates
                due = stop.requested or last or trainer.updates % config.checkpoint_every == 0
                if due:
                    save()
                if due and stop.requested:  # a signal that came after `due` was set waits for the next update
                    break
        except MmrsError as error:
            raise TrainingError(f"{ensure_period(error)} {_last_good(run)}") from error
        if trainer.updates < trainer.total_updates:
            display.set_status(run.name, "stopped", resume_hint(run.path, _step(trainer)))
        else:
            finish()
            display.set_status(run.name, "done", f"done: {run.path}")
    return stop.exit_code


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
