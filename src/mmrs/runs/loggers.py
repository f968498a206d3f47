"""Loggers of metrics: metrics.jsonl, TensorBoard, Weights & Biases; the latter are imported only when used."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from mmrs.errors import InputError, MissingExtraError, StorageError
from mmrs.runs.folder import RunFolder
from mmrs.runs.metrics_log import MetricsFile
from mmrs.storage.files import read_regular, write_atomic


class MetricsLogger(Protocol):
    """Takes one row of metrics per update."""

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Log a row; `step` counts agent steps."""
        ...

    def close(self) -> None:
        """Write what is pending and close."""
        ...


class JsonlLogger:
    """Logs to metrics.jsonl."""

    def __init__(self, metrics: MetricsFile) -> None:
        self.metrics = metrics

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Append the row, with its step."""
        self.metrics.append({"step": step, **row})

    def close(self) -> None:
        """Close the file."""
        self.metrics.close()


class TensorBoardLogger:
    """Logs scalars for `tensorboard --logdir`."""

    def __init__(self, run: RunFolder, resume_step: int | None = None) -> None:
        """Args:
        run: the run; events go to its `tensorboard` folder.
        resume_step: step of the checkpoint: TensorBoard then hides what was logged after it.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("tensorboard", "board") from error
        purge = None if resume_step is None else resume_step + 1
        self._writer: Any = SummaryWriter(str(run.tensorboard), purge_step=purge, max_queue=1000, flush_secs=10)

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Add each metric of the row as a scalar."""
        try:
            for name, value in _scalars(row).items():
                self._writer.add_scalar(name, value, step)
        except OSError as error:
            raise StorageError(f"cannot write TensorBoard's events: {error.strerror or error}.") from error

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


class WandbLogger:
    """Logs to Weights & Biases. Offline unless WANDB_MODE says otherwise: nothing leaves the run's folder then.

    Each attempt at a run writes a part of one W&B run; `wandb sync` puts the parts together.
    """

    def __init__(self, run: RunFolder, config: Mapping[str, Any], quiet: bool = False) -> None:
        """Args:
        run: the run; the parts go to its `wandb` folder.
        config: configuration to show beside the curves.
        quiet: print nothing on the terminal.
        """
        mode = os.environ.get("WANDB_MODE", "offline")
        with _default_env(_offline_env(run) if mode == "offline" else {}):
            try:
                import wandb  # noqa: PLC0415
            except ImportError as error:
                raise MissingExtraError("wandb", "wandb") from error
            try:
                self._run: Any = wandb.init(
                    project="mmrs",
                    name=run.name,
                    id=_wandb_id(run),
                    resume="allow",
                    reinit="create_new",  # a W&B run that the caller has open is left alone
                    dir=str(run.path),
                    config=dict(config),
                    mode=mode,
                    settings=wandb.Settings(console="off", silent=quiet),  # the terminal is for the display
                )
            except (wandb.errors.Error, ValueError) as error:
                raise InputError(
                    f"Weights & Biases did not start with WANDB_MODE={mode} ({' '.join(str(error).split())}). "
                    "Log in with `wandb login`, set WANDB_MODE=offline, or leave --wandb away."
                ) from error

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Log the metrics of the row."""
        try:
            self._run.log(_scalars(row), step=step)
        except OSError as error:
            self._run = None  # its process is gone, so it cannot be finished
            raise StorageError(f"the process that writes for Weights & Biases is gone ({error}).") from error

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()


def require_wandb() -> None:
    """Raise MissingExtraError unless wandb is installed, without importing it: that is slow and looks around."""
    found = importlib.util.find_spec("wandb")
    # A mere folder of that name, such as wandb leaves wherever it was used, has no origin.
    if found is None or found.origin is None:
        raise MissingExtraError("wandb", "wandb")


def _wandb_id(run: RunFolder) -> str:
    """Id of the W&B run: the same for every attempt, another one for a run of the same name elsewhere."""
    path = run.wandb / "id"
    if path.exists():
        return read_regular(path, 200).decode("ascii", "replace")
    wandb_id = f"{run.name}-{secrets.token_hex(4)}"
    try:
        run.wandb.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {run.wandb}: {error.strerror or error}.") from error
    write_atomic(path, wandb_id, durable=True)
    return wandb_id


def _offline_env(run: RunFolder) -> dict[str, str]:
    """Variables without which wandb, even offline, reports errors to its server and logs to the home folder."""
    return {"WANDB_ERROR_REPORTING": "false", "WANDB_CACHE_DIR": str(run.wandb / "cache")}


@contextlib.contextmanager
def _default_env(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables inside the context, except those that the user has set."""
    added = [name for name in variables if name not in os.environ]
    os.environ.update({name: variables[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _scalars(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(v) for name, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)}
