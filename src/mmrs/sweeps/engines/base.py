"""What a sweep needs of a machine or a cluster: places to run cells in, and word of how each try ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mmrs.sweeps.job import Outcome, run_cell
from mmrs.sweeps.suites import Cell


class Task(NamedTuple):
    """The sweep that cells belong to."""

    folder: Path
    command: str


class Resources(NamedTuple):
    """What one run gets."""

    threads: int
    """Torch's threads, and the environment's."""
    gpu: float
    """Share of a GPU; 0: none."""


class Engine(Protocol):
    """Runs cells elsewhere. Whatever dies there comes back as `lost`; nothing is tried twice by the engine itself."""

    def free(self) -> int:
        """Cells that could start now."""

    def submit(self, cell: Cell) -> None:
        """Start one try at a cell."""

    def wait(self, seconds: float) -> list[Outcome]:
        """Tries that ended, after at most `seconds`."""

    def stop(self) -> None:
        """Ask all that runs to save and stop; `wait` tells when they have."""

    def close(self) -> None:
        """End everything at once."""


def run_task(folder: str, cell: dict[str, Any], command: str) -> tuple[str, ...]:
    """`run_cell` with arguments and an answer that any engine can carry."""
    return tuple(run_cell(Path(folder), Cell(**cell), command))
