"""The interface between the scheduler and a machine or cluster: start runs, report how each attempt ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mmrs.sweeps.job import Outcome, execute_run
from mmrs.sweeps.suites import RunSpec


class SweepContext(NamedTuple):
    """The sweep that runs belong to."""

    folder: Path
    command: str


class Resources(NamedTuple):
    """What one run gets."""

    threads: int
    """Threads of torch and of the environments."""
    gpu: float
    """Share of a GPU; 0: none."""


class Engine(Protocol):
    """Executes runs elsewhere. An attempt that dies is reported as `lost`; engines themselves retry nothing."""

    def available_slots(self) -> int:
        """Number of runs that could start now."""

    def submit(self, spec: RunSpec) -> None:
        """Start one attempt at a run."""

    def wait(self, seconds: float) -> list[Outcome]:
        """Outcomes of attempts that ended; returns after at most `seconds`."""

    def stop(self) -> None:
        """Request all runs to save and stop; `wait` reports when they have."""

    def close(self) -> None:
        """End everything at once."""


def execute_serialized(folder: str, spec: dict[str, Any], command: str) -> tuple[str, ...]:
    """`execute_run` with arguments and a result that any engine can serialize."""
    return tuple(execute_run(Path(folder), RunSpec(**spec), command))
