"""`mmrs demo`: the whole package in about a minute, on a laptop."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mmrs.experiments.compare import compare
from mmrs.experiments.gridworld import GridWorldConfig, gridworld
from mmrs.experiments.maze import MazeConfig, maze


@dataclass(frozen=True)
class DemoConfig:
    """What `mmrs demo` does."""

    out: Path = Path("runs/demo")
    """Folder for the pictures and pages."""


def demo(config: DemoConfig) -> None:
    """Run the embedded examples one after the other."""
    gridworld(GridWorldConfig(out=config.out / "gridworld"))
    compare(config.out / "rewards")
    maze(MazeConfig(out=config.out / "maze"))
