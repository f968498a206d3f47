"""One cell of a sweep: bring its folder to its end, whatever state it is in."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mmrs.errors import RunBusyError, StorageError
from mmrs.paper.gridworld import GridWorldConfig, sequences
from mmrs.paper.maze.experiment import MazeConfig
from mmrs.paper.maze.experiment import run as run_maze
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import from_json, require_same, to_json
from mmrs.runs.folder import RunFolder
from mmrs.runs.history import ERROR, attempt, is_finished
from mmrs.runs.train import bring_to_end
from mmrs.storage.files import read_regular, write_whole
from mmrs.sweeps.suites import Cell

JOB = "job.json"


class Outcome(NamedTuple):
    """How one try at a cell ended."""

    name: str
    """Of the cell."""
    kind: Literal["finished", "failed", "lost", "busy", "stopped"]
    """`lost`: the process that worked on it died; `busy`: another one is at it; `stopped`: by a signal, saved."""
    text: str = ""
    """Why, where it failed."""


def run_cell(folder: Path, cell: Cell, command: str) -> Outcome:
    """Bring one cell of the sweep in `folder` to its end; a failure is written into its folder and returned."""
    try:
        code = KINDS[cell.kind](folder, cell, command)
    except RunBusyError:
        return Outcome(cell.name, "busy")
    except Exception:
        text = traceback.format_exc()
        record_error(folder / cell.name, text)
        return Outcome(cell.name, "failed", text)
    return Outcome(cell.name, "stopped" if code else "finished")


def record_error(folder: Path, text: str) -> None:
    """Leave the reason of a failure in a run's folder, if it can be written at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ERROR).write_text(text)
    except OSError:
        pass  # a full disk, perhaps the very reason; the table shows the text too


def _train(folder: Path, cell: Cell, command: str) -> int:
    config = from_json(TrainConfig, cell.config, cell.name)
    return bring_to_end(replace(config, root=folder, name=cell.name, quiet=True), command=command)


def _table(folder: Path, cell: Cell, command: str) -> int:
    config: Any = from_json(CONFIGS[cell.kind], cell.config, cell.name)
    path = folder / cell.name
    path.mkdir(parents=True, exist_ok=True)
    with RunFolder(path).exclusive():
        if is_finished(path):
            return 0
        _same_job(path / JOB, config)
        with attempt(path, lambda: 0, command) as finish:
            write_whole(path / f"{cell.kind}.json", TABLES[cell.kind](config))
            finish()
    return 0


def _same_job(path: Path, config: Any) -> None:
    if not path.exists():
        write_whole(path, json.dumps(to_json(config), indent=2) + "\n")
        return
    try:
        saved = from_json(type(config), json.loads(read_regular(path, 1 << 20)), str(path))
    except ValueError as error:
        raise StorageError(f"{path} cannot be read ({error}). Remove the folder to start this run anew.") from error
    require_same(saved, config, path.parent)


def _mazes(config: MazeConfig) -> str:
    return json.dumps(run_maze(config).to_dict()) + "\n"


def _walks(_config: GridWorldConfig) -> str:
    walks = {name: {"actions": w.actions, "J": [str(j) for j in w.fairness]} for name, w in sequences().items()}
    return json.dumps(walks, indent=2) + "\n"


CONFIGS: dict[str, type] = {"train": TrainConfig, "maze": MazeConfig, "gridworld": GridWorldConfig}
TABLES: dict[str, Callable[[Any], str]] = {"maze": _mazes, "gridworld": _walks}
"""Kinds that are done in one go: the content of their result file, from their configuration."""
KINDS: dict[str, Callable[[Path, Cell, str], int]] = {"train": _train, "maze": _table, "gridworld": _table}
"""What is done in the folder of a cell; returns 0, or the exit code of the signal that stopped it."""
