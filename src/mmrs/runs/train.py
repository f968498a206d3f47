"""`mmrs train`: a run from its first step to its last, saved on the way and continued after any stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from mmrs.errors import InputError, MissingExtraError, MmrsError, TrainingError, sentence
from mmrs.ppo.trainer import Trainer
from mmrs.runs.build import bonus_settings, build_trainer
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_check import check
from mmrs.runs.config_json import require_same, require_same_bonus, to_json
from mmrs.runs.console import lasting_console
from mmrs.runs.folder import RunFolder, plain_name
from mmrs.runs.history import attempt, is_finished
from mmrs.runs.loggers import JsonlSink, Sink, TensorBoardSink, WandbSink, require_wandb
from mmrs.runs.metrics_log import MetricsFile, Position
from mmrs.runs.progress import Display
from mmrs.runs.signals import StopSignals, resume_hint
from mmrs.storage import checkpoint as store


def train(config: TrainConfig) -> tuple[RunFolder, int]:
    """Start a run; returns its folder and the exit code (0, or that of the signal that stopped it)."""
    _check(config)
    trainer = build_trainer(config)  # first: a misspelt name must not leave an empty folder behind
    try:
        run = RunFolder.create(config.root, config.name or default_name(config))
        run.write_config(config, bonus_settings(config))
    except BaseException:
        trainer.collector.close()
        raise
    with run.exclusive():
        return run, _train(run, config, trainer, None)


def resume(path: Path, *, quiet: bool = False) -> tuple[RunFolder, int]:
    """Continue a run where its last good checkpoint stands; a finished one is left as it is."""
    run = RunFolder.open(path)
    with run.exclusive():
        return run, continue_run(run, quiet=quiet)


def bring_to_end(config: TrainConfig, *, command: str | None = None) -> int:
    """Create the run, continue it, or find it finished: whatever its folder needs. Returns the exit code.

    Args:
        config: of the run, named.
        command: to record as the one behind the run; None: this process's own.

    Raises:
        RunBusyError: another process is at it.
        InputError: the folder holds a run of another configuration.
    """
    _check(config)
    told = bonus_settings(config)  # first: a misspelt reward must not leave a folder behind
    run = RunFolder.create(config.root, config.name or default_name(config), adopt=True)
    with run.exclusive():
        if is_finished(run.path):
            return 0
        if not run.config.exists():
            run.write_config(config, told)
        require_same(run.read_config(TrainConfig), config, run.path)
        return continue_run(RunFolder.open(run.path), quiet=True, command=command)


def continue_run(run: RunFolder, *, quiet: bool = False, command: str | None = None) -> int:
    """Go on from the last good checkpoint, or from the start where there is none; the caller holds the run."""
    config = run.read_config(TrainConfig)
    if not is_finished(run.path):
        require_same_bonus(run.read_bonus(), bonus_settings(config), run.path)
    trainer = build_trainer(config)
    position = Position(0, 0)
    try:
        if store.checkpoints(run.checkpoints):
            _, tree = store.load(run.checkpoints)
            trainer.restore(tree["trainer"])
            position = Position(*tree["metrics"])
    except BaseException:
        trainer.collector.close()
        raise
    return _train(run, config, trainer, position, quiet=quiet, command=command)


def _check(config: TrainConfig) -> None:
    """Refuse what can be known to fail before there is a folder, which would stand in the way of the next try."""
    check(config)
    if config.wandb:
        require_wandb()


def default_name(config: TrainConfig) -> str:
    """A folder name that tells the environment, the bonus and the seed."""
    return plain_name(config.env.id, config.bonus.name, str(config.seed))


def _train(
    run: RunFolder,
    config: TrainConfig,
    trainer: Trainer,
    position: Position | None,
    quiet: bool = False,
    command: str | None = None,
) -> int:
    """The loop around the loop: each row to its places, a checkpoint when due, a stop when asked."""
    quiet = quiet or config.quiet
    with contextlib.ExitStack() as stack:
        display = Display({run.name: config.steps}, quiet=quiet)
        # First in, last out: a signal must not cut short what is closed at the end.
        stop = stack.enter_context(StopSignals(display.announce, lambda: display.update_left(run.name)))
        stack.callback(trainer.collector.close)
        finish = stack.enter_context(attempt(run.path, lambda: _step(trainer), command))
        store.remove_leftovers(run.checkpoints)
        metrics = stack.enter_context(MetricsFile(run.metrics, position))
        sinks = _sinks(run, config, metrics, trainer, quiet)
        for sink in sinks:
            stack.callback(sink.close)
        stack.enter_context(display)
        save = _saver(run, trainer, metrics)
        try:
            for row in trainer:
                for sink in sinks:
                    sink.write(row, row["step"])
                display.update(run.name, row)
                last = trainer.updates == trainer.total_updates
                due = stop.requested or last or trainer.updates % config.checkpoint_every == 0
                if due:
                    save()
                if due and stop.requested:  # a signal that came after `due` was decided waits for the next update
                    break
        except MmrsError as error:
            raise TrainingError(f"{sentence(error)} {_last_good(run)}") from error
        if trainer.updates < trainer.total_updates:
            display.note(run.name, "stopped", resume_hint(run.path, _step(trainer)))
        else:
            finish()
            display.note(run.name, "done", f"done: {run.path}")
    return stop.exit_code


def _step(trainer: Trainer) -> int:
    return trainer.updates * trainer.steps_per_update


def _saver(run: RunFolder, trainer: Trainer, metrics: MetricsFile) -> Callable[[], None]:
    def save() -> None:
        tree = {"trainer": trainer.state(), "metrics": list(metrics.position())}
        try:
            store.save(run.checkpoints, _step(trainer), tree)
        except InputError as error:  # such as a number that is not finite
            raise TrainingError(f"nothing was saved at step {_step(trainer)}: {error}") from error

    return save


def _sinks(run: RunFolder, config: TrainConfig, metrics: MetricsFile, trainer: Trainer, quiet: bool) -> list[Sink]:
    sinks: list[Sink] = [JsonlSink(metrics)]
    try:
        sinks.append(TensorBoardSink(run, _step(trainer) or None))
    except MissingExtraError as error:
        lasting_console().print(f"No TensorBoard events: {error}", highlight=False, markup=False, soft_wrap=True)
    if config.wandb:
        sinks.append(WandbSink(run, to_json(config), quiet))
    return sinks


def _last_good(run: RunFolder) -> str:
    saved = store.checkpoints(run.checkpoints)
    if not saved:
        return "The run has no checkpoint yet."
    step = saved[-1].step
    return f"The last checkpoint, of step {step}, is untouched; go on from it with: mmrs train --resume {run.path}"
