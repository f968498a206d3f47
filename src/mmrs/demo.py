"""`mmrs demo`: the whole package in about two minutes, on a laptop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from mmrs.errors import require_packages
from mmrs.paper.gridworld import GridWorldConfig, gridworld
from mmrs.paper.maze.experiment import MazeConfig, maze
from mmrs.paper.reward_maps import compare_rewards
from mmrs.report.command import ReportConfig, report
from mmrs.runs.presets import default_config
from mmrs.sweeps.command import SweepConfig, sweep
from mmrs.sweeps.compare import train_side_by_side

METHODS = ("ppo", "rnd", "mmrs", "landmarks")
"""Trained side by side on KeyRooms."""


@dataclass(frozen=True)
class DemoConfig:
    """Show the package in two minutes: walks, reward maps, mazes, four trained methods, a sweep and its report."""

    out: Path = Path("runs/demo")
    """Folder of the figures and pages."""
    steps: int | None = None
    """Agent steps per method on KeyRooms; None: those of the preset."""


def demo(config: DemoConfig) -> int:
    """Run the embedded examples one after the other; returns the exit code."""
    require_packages(matplotlib="report", jinja2="report", scipy="stats", imageio_ffmpeg="video")
    gridworld(GridWorldConfig(out=config.out / "gridworld"))
    compare_rewards(config.out / "rewards")
    maze(MazeConfig(out=config.out / "maze"))
    rooms = replace(default_config(), root=config.out, name="rooms")
    code = train_side_by_side(replace(rooms, steps=config.steps or rooms.steps), METHODS)
    return code or _sweep_and_report(config.out)


def _sweep_and_report(out: Path) -> int:
    """A sweep of nine small runs, and its report."""
    suite = SweepConfig("smoke", games=("mmrs/Maze2D-v0",), seeds=3, out=out / "sweep", mix_versions=True)
    code = sweep(suite)
    report(ReportConfig((out / "sweep",), out=out / "report", figures=True))
    return code
