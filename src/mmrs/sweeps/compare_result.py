"""The results of runs that are compared, read from their folders for a table and a page."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from mmrs.envs.rooms.family import ROOM_IDS
from mmrs.envs.rooms.layout import parts
from mmrs.envs.rooms.maps import FLOOR, PASSAGES, SIDE, WORLDS, closed_rooms, key_rooms
from mmrs.report.comparison import COVERAGE, RETURN, STATES, SUCCESS, Comparison, Method, Run
from mmrs.runs.config import TrainConfig
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.video import VideoConfig, video
from mmrs.storage import checkpoint as store
from mmrs.sweeps.suites import RunSpec

VIDEO = "video.mp4"
FPS = 12


def read_comparison(folder: Path, config: TrainConfig, specs: Iterable[RunSpec]) -> Comparison:
    """The results of `specs` in `folder`, which must be finished."""
    specs = tuple(specs)
    names = list(dict.fromkeys(spec.method for spec in specs))
    rooms = config.env.id in ROOM_IDS
    methods = tuple(_method(folder, name, [c for c in specs if c.method == name], rooms) for name in names)
    return Comparison(
        env=config.env.id,
        steps=config.steps,
        seeds=len({spec.seed for spec in specs}),
        methods=methods,
        settings=_settings(config) | {f"bonus of {c.method}": _bonus(c.config["bonus"]) for c in specs},
        world=_world(config.env.id) if rooms else None,
    )


def _method(folder: Path, name: str, specs: list[RunSpec], rooms: bool) -> Method:
    runs = tuple(_run(folder / spec.name / "metrics.jsonl", spec.seed) for spec in specs)
    visits = sum(_visits(folder / spec.name / "checkpoints") for spec in specs) if rooms else None
    return Method(name, runs, visits)  # type: ignore[arg-type]


def _run(path: Path, seed: int) -> Run:
    rows = read_metrics(path).rows
    known = [name for name in (SUCCESS, RETURN, STATES, COVERAGE) if any(name in row for row in rows)]
    columns = {name: [row.get(name) for row in rows] for name in known}
    return Run(seed, [int(row["step"]) for row in rows], columns)


def _visits(checkpoints: Path) -> NDArray[np.int64]:
    """Visits to each cell ``[13, 13]``, which the environments keep in the newest checkpoint."""
    envs = store.load(checkpoints)[1]["trainer"]["collector"]["envs"]
    rows = np.stack([one["row"] for one in envs])
    return np.asarray(parts(rows)[3].sum(0).reshape(-1, SIDE, SIDE).sum(0))


def _world(env_id: str) -> NDArray[np.uint8]:
    """The content of each cell; for a world with a new map each episode, every passage."""
    if not WORLDS[ROOM_IDS[env_id]].procedural:
        return key_rooms().reshape(SIDE, SIDE)
    grid = closed_rooms()
    grid[list(PASSAGES)] = FLOOR
    return grid.reshape(SIDE, SIDE)


def _settings(config: TrainConfig) -> dict[str, str]:
    ppo = config.ppo
    return {
        "environments": f"{config.env.num_envs}, {config.num_steps} steps between updates",
        "learning rate": f"{ppo.learning_rate:g}{', decaying' if ppo.linear_decay else ''}",
        "epochs and minibatches": f"{ppo.epochs} and {ppo.minibatches}",
        "discount and GAE": f"{ppo.gamma:g} and {ppo.gae_lambda:g}",
        "clip": f"{ppo.clip:g}",
        "entropy weight": f"{ppo.entropy_weight:g}",
        "observations": config.env.obs_type if config.env.id in ROOM_IDS else "the environment's",
        "first seed": str(config.seed),
    }


def _bonus(bonus: dict[str, Any]) -> str:
    """The weight, the normalization and the options of a method's bonus."""
    if bonus["name"] == "none":
        return "none"
    text = [f"weight {bonus['weight']:g}"]
    text += [] if bonus["final_weight"] is None else [f"falling to {bonus['final_weight']:g}"]
    text += ["centered"] if bonus["center"] else []
    text += [] if bonus["scale"] == "none" else [f"divided by the standard deviation of its {bonus['scale']}"]
    return ", ".join([*text, *bonus["options"]])


def record_video(folder: Path, comparison: Comparison) -> tuple[str, bytes]:
    """Record an episode of MMRS, or of the best method if MMRS is not compared; returns its name and the mp4 file."""
    best = max(comparison.methods, key=lambda m: (m.name == "mmrs", m.mean(SUCCESS) or 0.0))
    run = folder / f"{best.name}-{best.runs[0].seed}"
    path = folder / VIDEO
    video(VideoConfig(run=run, fps=FPS, max_steps=400, out=path), Console(file=io.StringIO()))
    return best.name, path.read_bytes()
