"""Where rows of metrics go besides the record: TensorBoard and Weights & Biases, each imported only when asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from mmrs.errors import MissingExtraError, StorageError
from mmrs.experiments.metrics import MetricsFile
from mmrs.experiments.run_folder import RunFolder


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
    """Weights & Biases. Offline unless WANDB_MODE says otherwise: nothing leaves the machine unasked."""

    def __init__(self, run: RunFolder, config: Mapping[str, Any]) -> None:
        try:
            import wandb  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtraError("wandb", "wandb") from error
        mode = os.environ.get("WANDB_MODE", "offline")
        # The name as id, so that a resumed run continues its curves.
        self._run: Any = wandb.init(
            project="mmrs",
            name=run.name,
            id=run.name,
            resume="allow",
            dir=str(run.path),
            config=dict(config),
            mode=mode,
        )

    def write(self, row: Mapping[str, Any], step: int) -> None:
        """Log the numbers of the row."""
        self._run.log(_numbers(row), step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(v) for name, v in row.items() if isinstance(v, int | float) and not isinstance(v, bool)}
