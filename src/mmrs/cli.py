"""The command line: each subcommand calls one function of the package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import tyro
from rich.console import Console

from mmrs.errors import MmrsError
from mmrs.experiments.bounds import BoundsConfig, bounds
from mmrs.experiments.demo import DemoConfig, demo
from mmrs.experiments.gridworld import GridWorldConfig, gridworld
from mmrs.experiments.maze import MazeConfig, maze

Command = (
    Annotated[DemoConfig, tyro.conf.subcommand("demo")]
    | Annotated[GridWorldConfig, tyro.conf.subcommand("gridworld")]
    | Annotated[MazeConfig, tyro.conf.subcommand("maze")]
    | Annotated[BoundsConfig, tyro.conf.subcommand("bounds")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand; an error made by its input is one line, not a traceback."""
    command = tyro.cli(Command, prog="mmrs", description=__doc__, args=arguments)
    try:
        run(command)
    except MmrsError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False, markup=True, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def run(command: DemoConfig | GridWorldConfig | MazeConfig | BoundsConfig) -> None:
    """Call what the configuration configures."""
    match command:
        case DemoConfig():
            demo(command)
        case GridWorldConfig():
            gridworld(command)
        case MazeConfig():
            maze(command)
        case BoundsConfig():
            bounds(command)


if __name__ == "__main__":
    sys.exit(main())
