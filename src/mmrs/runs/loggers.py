"""Where rows of metrics go besides the record: TensorBoard and Weights & Biases, each imported only when asked for."""

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
from mmrs.storage.files import read_regular, replace_durably


class Sink(Protocol):
    """Takes a row of numbers an update."""

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Take a row; `step` counts agent steps."""
        ...

    def close(self) -> None:
        """Bring everything to its place."""
        ...


class JsonlSink:
    """The record as a sink."""

    def __init__(self, metrics: MetricsFile) -> None:
        self.metrics = metrics

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Append the row, with its step."""
        self.metrics.append({"step": step, **row})

    def close(self) -> None:
        """Close the file."""
        self.metrics.close()


class TensorBoardSink:
    """Scalars for `tensorboard --logdir`."""

    def __init__(self, run: RunFolder, resume_step: int | None = None) -> None:
        """Args:
        run: whose `tensorboard` folder gets the events.
        resume_step: of the checkpoint: TensorBoard then hides what was logged after it.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("tensorboard", "board") from error
        purge = None if resume_step is None else resume_step + 1
        self._writer: Any = SummaryWriter(str(run.tensorboard), purge_step=purge, max_queue=1000, flush_secs=10)

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Add each number of the row as a scalar."""
        try:
            for name, value in _numbers(row).items():
                self._writer.add_scalar(name, value, step)
        except OSError as error:
            raise StorageError(f"cannot write TensorBoard's events: {error.strerror or error}.") from error

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


class WandbSink:
    """Weights & Biases. Offline unless WANDB_MODE says otherwise: then nothing leaves the machine or the run's folder.

    Each attempt at a run leaves a part of one W&B run; `wandb sync` puts the parts together.
    """

    def __init__(self, run: RunFolder, config: Mapping[str, Any], quiet: bool = False) -> None:
        """Args:
        run: whose `wandb` folder gets the parts.
        config: to show beside the curves.
        quiet: say nothing on the terminal.
        """
        mode = os.environ.get("WANDB_MODE", "offline")
        with _defaults(_closed(run) if mode == "offline" else {}):
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
                    reinit="create_new",  # a run that the caller may have open is not ours to log to or to finish
                    dir=str(run.path),
                    config=dict(config),
                    mode=mode,
                    settings=wandb.Settings(console="off", silent=quiet),  # the terminal belongs to the display
                )
            except (wandb.errors.Error, ValueError) as error:
                raise InputError(
                    f"Weights & Biases did not start with WANDB_MODE={mode} ({' '.join(str(error).split())}). "
                    "Log in with `wandb login`, set WANDB_MODE=offline, or leave --wandb away."
                ) from error

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Log the numbers of the row."""
        try:
            self._run.log(_numbers(row), step=step)
        except OSError as error:
            self._run = None  # nobody is left to finish it
            raise StorageError(f"the process that writes for Weights & Biases is gone ({error}).") from error

    def close(self) -> None:
        """Finish the run."""
        if self._run is not None:
            self._run.finish()


def require_wandb() -> None:
    """Refuse to start a run whose rows would have nowhere to go; wandb itself, slow and curious, is not imported."""
    found = importlib.util.find_spec("wandb")
    # A mere folder of that name, such as wandb leaves wherever it was used, has no origin.
    if found is None or found.origin is None:
        raise MissingExtraError("wandb", "wandb")


def _wandb_id(run: RunFolder) -> str:
    """The same for every attempt at a run, and another one for a run of the same name elsewhere."""
    path = run.wandb / "id"
    if path.exists():
        return read_regular(path, 200).decode("ascii", "replace")
    wandb_id = f"{run.name}-{secrets.token_hex(4)}"
    try:
        run.wandb.mkdir(exist_ok=True)
        replace_durably(path, wandb_id.encode())
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}.") from error
    return wandb_id


def _closed(run: RunFolder) -> dict[str, str]:
    """Even offline, wandb looks for its makers' server to report errors to, and logs to the home folder."""
    return {"WANDB_ERROR_REPORTING": "false", "WANDB_CACHE_DIR": str(run.wandb / "cache")}


@contextlib.contextmanager
def _defaults(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the time being, where the user has set none."""
    added = [name for name in variables if name not in os.environ]
    os.environ.update({name: variables[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(v) for name, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)}
