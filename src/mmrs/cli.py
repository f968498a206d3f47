"""Intrinsic rewards for exploration: train, evaluate, and repeat the experiments of the paper."""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from mmrs import __version__
from mmrs.audit import AuditConfig, audit
from mmrs.demo import DemoConfig, demo
from mmrs.errors import InputError, MmrsError
from mmrs.listing import ListConfig, show_list
from mmrs.paper.bounds.experiment import BoundsConfig, bounds
from mmrs.paper.gridworld import GridWorldConfig, gridworld
from mmrs.paper.maze.experiment import MazeConfig, maze
from mmrs.report.command import ReportConfig, report
from mmrs.runs.config import TrainConfig
from mmrs.runs.console import resilient_console
from mmrs.runs.evaluate import EvalConfig, evaluate
from mmrs.runs.export import ExportConfig, export
from mmrs.runs.presets import default_config
from mmrs.runs.train import resume, train
from mmrs.runs.video import VideoConfig, video
from mmrs.sweeps.command import SweepConfig, sweep
from mmrs.sweeps.compare import train_side_by_side
from mmrs.sweeps.cost import CostConfig, cost


@dataclasses.dataclass(frozen=True)
class TrainCommand(TrainConfig):
    """Train PPO with an intrinsic reward. Defaults fit the environment and the reward; every value can be changed."""

    preset: str | None = None
    """Defaults to start from: rooms, atari, bullet, vector, images, paper-literal. None: those of the environment."""
    compare: tuple[str, ...] | None = None
    """Train methods side by side: ppo (no bonus), mmrs-paper (MMRS as printed) and any rewards of `mmrs list`."""
    compare_seeds: int | None = None
    """Number of seeds per method of --compare, counted from --seed; None: one."""
    resume: Path | None = None
    """Folder of a run to continue. Its own configuration is used; all other options but --quiet are ignored."""


def _train(command: TrainCommand) -> int:
    if command.resume is not None:
        return resume(command.resume, quiet=command.quiet)[1]
    names = [f.name for f in dataclasses.fields(TrainConfig)]
    config = TrainConfig(**{name: getattr(command, name) for name in names})
    if command.compare is not None:
        seeds = 1 if command.compare_seeds is None else command.compare_seeds
        return train_side_by_side(config, command.compare, seeds)
    if command.compare_seeds is not None:
        raise InputError("--compare-seeds needs --compare and the methods to compare. One run takes --seed.")
    return train(config)[1]


COMMANDS: dict[str, tuple[type, Callable[[Any], object]]] = {
    "train": (TrainCommand, _train),
    "eval": (EvalConfig, evaluate),
    "video": (VideoConfig, video),
    "export": (ExportConfig, export),
    "sweep": (SweepConfig, sweep),
    "cost": (CostConfig, cost),
    "list": (ListConfig, show_list),
    "report": (ReportConfig, report),
    "audit": (AuditConfig, audit),
    "demo": (DemoConfig, demo),
    "gridworld": (GridWorldConfig, gridworld),
    "maze": (MazeConfig, maze),
    "bounds": (BoundsConfig, bounds),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; an error caused by its input is printed in one line, without a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.formatwarning = lambda message, *_: f"warning: {message}\n"
    if arguments == ["--version"]:
        sys.stdout.write(f"mmrs {__version__}\n")
        return 0
    try:
        command = _parse(arguments)
        run = next(function for kind, function in COMMANDS.values() if isinstance(command, kind))
        code = run(command)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # the reader of the output (head, less) has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # the exit code that a shell gives to SIGPIPE
    except MmrsError as error:
        text = f"error: {error}"
        resilient_console().print(text, style="bold red", highlight=False, markup=False, soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        return 130


def _parse(arguments: list[str]) -> object:
    """Read the command line. Defaults of `train` depend on three of its own options, which are looked up first."""
    wanted = {name: _value_of(arguments, *flags) for name, flags in {
        "env": ("--env", "--env.id"), "bonus": ("--bonus", "--bonus.name"), "preset": ("--preset",),
    }.items()} if arguments[:1] == ["train"] else {}  # fmt: skip
    default = default_config(**wanted)
    fields = {f.name: getattr(default, f.name) for f in dataclasses.fields(default)}
    defaults: dict[str, Any] = {"train": TrainCommand(**fields)}
    commands = [
        Annotated[kind, tyro.conf.subcommand(name, default=defaults[name]) if name in defaults else _named(name)]
        for name, (kind, _) in COMMANDS.items()
    ]
    union: Any = commands[0]
    for command in commands[1:]:
        union = union | command
    return tyro.cli(union, prog="mmrs", description=f"{__doc__} --version prints the version.", args=arguments)


def _named(name: str) -> object:
    return tyro.conf.subcommand(name)


def _value_of(arguments: list[str], *flags: str) -> str | None:
    """The value that follows a flag, however it is written."""
    for i, argument in enumerate(arguments):
        for flag in flags:
            if argument.startswith(f"{flag}="):
                return argument.removeprefix(f"{flag}=")
            if argument == flag and i + 1 < len(arguments):
                return arguments[i + 1]
    return None


if __name__ == "__main__":
    sys.exit(main())
