"""`mmrs train`: a run from its first step to its last, saved on the way and continued after any stop."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

from mmrs.agents.train import Trainer
from mmrs.errors import MissingExtraError, MmrsError, TrainingError
from mmrs.experiments import store
from mmrs.experiments.build import build_trainer, check
from mmrs.experiments.config import TrainConfig
from mmrs.experiments.config_json import to_json
from mmrs.experiments.display import Display
from mmrs.experiments.metrics import MetricsFile, Position
from mmrs.experiments.run_folder import RunFolder, plain_name
from mmrs.experiments.signals import StopSignals, resume_hint
from mmrs.experiments.sinks import JsonlSink, Sink, TensorBoardSink, WandbSink


def train(config: TrainConfig) -> tuple[RunFolder, int]:
    """Start a run; returns its folder and the exit code (0, or that of the signal that stopped it)."""
    check(config)
    trainer = build_trainer(config)  # first: a misspelt name must not leave an empty folder behind
    try:
        run = RunFolder.create(config.root, config.name or default_name(config))
        run.write_config(config)
    except BaseException:
        trainer.collector.close()
        raise
    with run.exclusive():
        return run, _train(run, config, trainer, None)


def resume(path: Path, *, quiet: bool = False) -> tuple[RunFolder, int]:
    """Continue a run where its last good checkpoint stands; a finished one is left as it is."""
    run = RunFolder.open(path)
    config = run.read_config(TrainConfig)
    trainer = build_trainer(config)
    position = Position(0, 0)
    with run.exclusive():
        try:
            if store.checkpoints(run.checkpoints):
                _, tree = store.load(run.checkpoints)
                trainer.restore(tree["trainer"])
                position = Position(*tree["metrics"])
        except BaseException:
            trainer.collector.close()
            raise
        return run, _train(run, config, trainer, position, quiet=quiet)


def default_name(config: TrainConfig) -> str:
    """A folder name that tells the environment, the bonus and the seed."""
    return plain_name(config.env.id, config.bonus.name, str(config.seed))


def _train(
    run: RunFolder, config: TrainConfig, trainer: Trainer, position: Position | None, quiet: bool = False
) -> int:
    """The loop around the loop: each row to its places, a checkpoint when due, a stop when asked."""
    with contextlib.ExitStack() as stack:
        stack.callback(trainer.collector.close)
        store.remove_leftovers(run.checkpoints)
        metrics = stack.enter_context(MetricsFile(run.metrics, position))
        sinks = _sinks(run, config, metrics, trainer)
        for sink in sinks:
            stack.callback(sink.close)
        stop = stack.enter_context(StopSignals())
        display = stack.enter_context(Display({run.name: config.steps}, quiet=config.quiet or quiet))
        save = _saver(run, trainer, metrics)
        try:
            for row in trainer:
                for sink in sinks:
                    sink.write(row, row["step"])
                display.update(run.name, row)
                ending = stop.requested or trainer.updates == trainer.total_updates
                if ending or trainer.updates % config.checkpoint_every == 0:
                    save()
                if stop.requested:
                    break
        except MmrsError as error:
            raise TrainingError(f"{error}{_last_good(run)}") from error
        if stop.requested:
            display.note(run.name, resume_hint(run.path, trainer.updates * trainer.steps_per_update))
        else:
            display.note(run.name, f"done: {run.path}")
    return stop.exit_code


def _saver(run: RunFolder, trainer: Trainer, metrics: MetricsFile) -> Callable[[], None]:
    def save() -> None:
        tree = {"trainer": trainer.state(), "metrics": list(metrics.position())}
        store.save(run.checkpoints, trainer.updates * trainer.steps_per_update, tree)

    return save


def _sinks(run: RunFolder, config: TrainConfig, metrics: MetricsFile, trainer: Trainer) -> list[Sink]:
    sinks: list[Sink] = [JsonlSink(metrics)]
    step = trainer.updates * trainer.steps_per_update
    try:
        sinks.append(TensorBoardSink(run, step or None))
    except MissingExtraError as error:
        sys.stderr.write(f"No TensorBoard events: {error}\n")
    if config.wandb:
        sinks.append(WandbSink(run, to_json(config)))
    return sinks


def _last_good(run: RunFolder) -> str:
    saved = store.checkpoints(run.checkpoints)
    if not saved:
        return " The run has no checkpoint yet."
    step = saved[-1].step
    return f" The last checkpoint, of step {step}, is untouched; go on from it with: mmrs train --resume {run.path}"
