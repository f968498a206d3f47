"""One run of a sweep: bring its folder to its end, whatever state it is in."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mmrs.errors import RunBusyError, StorageError
from mmrs.paper.gridworld import GridWorldConfig, paper_trajectories
from mmrs.paper.maze.experiment import MazeConfig
from mmrs.paper.maze.experiment import run as run_maze
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import from_json, require_same, to_json
from mmrs.runs.folder import RunFolder
from mmrs.runs.history import ERROR, is_finished, record_attempt
from mmrs.runs.train import run_to_completion
from mmrs.runs.upgrade import upgrade_config
from mmrs.storage.files import read_regular, write_atomic
from mmrs.sweeps.suites import RunSpec

JOB = "job.json"


class Outcome(NamedTuple):
    """How one attempt at a run ended."""

    name: str
    """Name of the run."""
    kind: Literal["finished", "failed", "lost", "busy", "stopped"]
    """`lost`: its process died; `busy`: another process works on it; `stopped`: by a signal, saved."""
    text: str = ""
    """The reason, where it failed."""


def execute_run(folder: Path, spec: RunSpec, command: str) -> Outcome:
    """Bring one run of the sweep in `folder` to its end; a failure is written into its folder and returned."""
    try:
        code = KINDS[spec.kind](folder, spec, command)
    except RunBusyError:
        return Outcome(spec.name, "busy")
    except Exception:
        text = traceback.format_exc()
        record_error(folder / spec.name, text)
        return Outcome(spec.name, "failed", text)
    return Outcome(spec.name, "stopped" if code else "finished")


def record_error(folder: Path, text: str) -> None:
    """Write the reason of a failure into a run's folder, if it can be written at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ERROR).write_text(text)
    except OSError:
        pass  # a full disk, perhaps the very reason; the table shows the text too


def _train(folder: Path, spec: RunSpec, command: str) -> int:
    config = from_json(TrainConfig, spec.config, spec.name)
    return run_to_completion(replace(config, root=folder, name=spec.name, quiet=True), command=command)


def _table(folder: Path, spec: RunSpec, command: str) -> int:
    config: Any = from_json(CONFIGS[spec.kind], spec.config, spec.name)
    path = folder / spec.name
    path.mkdir(parents=True, exist_ok=True)
    with RunFolder(path).exclusive():
        if is_finished(path):
            return 0
        _same_job(path / JOB, config)
        with record_attempt(path, lambda: 0, command) as finish:
            write_atomic(path / f"{spec.kind}.json", TABLES[spec.kind](config))
            finish()
    return 0


def _same_job(path: Path, config: Any) -> None:
    if not path.exists():
        write_atomic(path, json.dumps(to_json(config), indent=2) + "\n")
        return
    try:
        saved = from_json(type(config), upgrade_config(json.loads(read_regular(path, 1 << 20))), str(path))
    except ValueError as error:
        raise StorageError(f"{path} cannot be read ({error}). Remove the folder to start this run again.") from error
    require_same(saved, config, path.parent)


def _mazes(config: MazeConfig) -> str:
    return json.dumps(run_maze(config).to_dict()) + "\n"


def _walks(_config: GridWorldConfig) -> str:
    walks = {
        name: {"actions": w.actions, "J": [str(j) for j in w.fairness]} for name, w in paper_trajectories().items()
    }
    return json.dumps(walks, indent=2) + "\n"


CONFIGS: dict[str, type] = {"train": TrainConfig, "maze": MazeConfig, "gridworld": GridWorldConfig}
TABLES: dict[str, Callable[[Any], str]] = {"maze": _mazes, "gridworld": _walks}
"""Kinds of run without checkpoints: the content of their result file, from their configuration."""
KINDS: dict[str, Callable[[Path, RunSpec, str], int]] = {"train": _train, "maze": _table, "gridworld": _table}
"""Kinds of run: a function that works in the folder; returns 0, or the exit code of the signal that stopped it."""
