"""Intrinsic rewards for exploration: train, evaluate, and repeat the experiments of the paper."""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import tyro

from mmrs import __version__, plugins
from mmrs.audit import AuditConfig, audit
from mmrs.bonus_flags import with_flags, without_flags
from mmrs.demo import DemoConfig, demo
from mmrs.errors import InputError, MmrsError
from mmrs.listing import ListConfig, show_list
from mmrs.paper.bounds.experiment import BoundsConfig, bounds
from mmrs.paper.gridworld import GridWorldConfig, gridworld
from mmrs.paper.maze.experiment import MazeConfig, maze
from mmrs.report.command import ReportConfig, report
from mmrs.runs.config import TrainConfig, json_object
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
    """Folder of a run to continue with its own configuration; --steps N makes it longer. Takes only --quiet besides."""


_AS_SAVED = -(2**62)
"""Stands for the steps of a resumed run where --steps is not given."""


def _train(command: TrainCommand) -> int:
    if command.resume is not None:
        steps = None if command.steps == _AS_SAVED else command.steps
        return resume(command.resume, quiet=command.quiet, steps=steps)[1]
    names = [f.name for f in dataclasses.fields(TrainConfig)]
    config = TrainConfig(**{name: getattr(command, name) for name in names})
    modules = plugins.local_modules((config.env.id, *config.env.wrappers))
    config = dataclasses.replace(config, imports=plugins.locate((*config.imports, *modules)))
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
    made = _load_plugins(arguments, wanted.get("env"))
    default = default_config(wanted.get("env"), wanted.get("bonus"), wanted.get("preset"), **made)
    fields = {f.name: getattr(default, f.name) for f in dataclasses.fields(default)}
    if arguments[:1] == ["train"] and _value_of(arguments, "--resume") is not None:
        _require_used(arguments)
        fields["steps"] = _AS_SAVED
    defaults: dict[str, Any] = {"train": with_flags(TrainCommand(**fields), arguments)}
    kinds = {name: type(defaults.get(name)) if name in defaults else kind for name, (kind, _) in COMMANDS.items()}
    commands = [
        Annotated[kind, tyro.conf.subcommand(name, default=defaults[name]) if name in defaults else _named(name)]
        for name, kind in kinds.items()
    ]
    union: Any = commands[0]
    for command in commands[1:]:
        union = union | command
    about = f"{__doc__} --version prints the version."
    parsed: Any = tyro.cli(union, prog="mmrs", description=about, args=arguments, registry=_REGISTRY)
    return without_flags(parsed, arguments) if isinstance(parsed, TrainCommand) else parsed


def _load_plugins(arguments: list[str], env: str | None) -> dict[str, Any]:
    """Import the user's modules first, since defaults depend on them; returns how `train` makes its environments."""
    if arguments[:1] != ["train"]:
        return {}
    wrappers = _values_of(arguments, "--env.wrappers")
    modules = plugins.local_modules((env or "", *wrappers))
    plugins.load((*_values_of(arguments, "--import"), *modules))
    text = _value_of(arguments, "--env.kwargs")
    try:
        return {"wrappers": wrappers, "kwargs": text and json_object(text)}
    except ValueError:
        return {"wrappers": wrappers}  # refused with the other options, in their form


def _values_of(arguments: list[str], flag: str) -> tuple[str, ...]:
    """The values that follow a flag, up to the next flag."""
    first = _value_of(arguments, flag)
    if first is None or flag not in arguments:
        return () if first is None else (first,)
    start = arguments.index(flag) + 1
    return tuple(itertools.takewhile(lambda text: not text.startswith("-"), arguments[start:]))


def _require_used(arguments: list[str]) -> None:
    """Refuse options that would change a resumed run: it keeps its own configuration."""
    given = [argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")]
    ignored = [flag for flag in given if flag not in ("--resume", "--steps", "--quiet", "--no-quiet", "--help")]
    if ignored:
        raise InputError(
            f"a resumed run keeps its configuration, so {', '.join(dict.fromkeys(ignored))} would be ignored. Leave it "
            "out, or start a new run. With --resume go --steps, which makes the run longer, and --quiet."
        )


def _named(name: str) -> object:
    return tyro.conf.subcommand(name)


_REGISTRY = tyro.constructors.ConstructorRegistry()


@_REGISTRY.primitive_rule
def _whole_numbers(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[int] | None:
    """Read options of type int with `whole_number`."""
    if info.type is not int:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda texts: whole_number(texts[0]),
        is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
        str_from_instance=lambda value: [str(value)],
    )


def whole_number(text: str) -> int:
    """A whole number, also as 1e6 or 1_000_000. Exact, and an exponent too large for any option ends in an error."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a number") from None
    if not value.is_finite() or value.adjusted() > 30 or value != value.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number")
    return int(value)


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
