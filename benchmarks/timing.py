"""Timing, tables and result files that the benchmarks share."""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.table import Table

import mmrs

RESULTS = Path(__file__).resolve().parent / "results"
Call = Callable[[], object]


def interleaved(calls: Mapping[str, Call], repeats: int, device: str = "cpu") -> dict[str, list[float]]:
    """Seconds of each call in each of `repeats` rounds, after one round that is not counted.

    Every round makes all calls once, in order. A slow moment of the machine then affects all of them alike, and ratios
    of medians stay fair even if the medians do not.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(repeats + 1):
        for name, call in calls.items():
            elapsed = seconds_of(call, device)
            if number:
                seconds[name].append(elapsed)
    return seconds


def seconds_of(call: Call, device: str) -> float:
    """Wall-clock seconds of one call, waiting for the device before and after."""
    wait_for(device)
    start = time.perf_counter()
    call()
    wait_for(device)
    return time.perf_counter() - start


def wait_for(device: str) -> None:
    """Wait until the kernels on a GPU are done; Python does not wait for them by itself."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def median_ms(seconds: Sequence[float]) -> float:
    """Median in milliseconds."""
    return 1000 * statistics.median(seconds)


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Context in which torch computes with this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def machine(device: str = "cpu") -> dict[str, Any]:
    """The machine and the versions of a measurement."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else "cpu",
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": {module.__name__: str(module.__version__) for module in (mmrs, torch, np, gym)},
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write_results(name: str, results: Mapping[str, Any]) -> Path:
    """Write ``results/<name>.json``; returns its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(results, indent=2) + "\n")
    return path


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> None:
    """Print a table with text aligned left and numbers aligned right."""
    table = Table(title=title, box=box.SIMPLE, title_justify="left", caption=note or None, caption_justify="left")
    numeric = [any(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))]
    for column, right in zip(columns, numeric, strict=True):
        table.add_column(column, justify="right" if right else "left")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    # Without a terminal rich assumes 80 columns and wraps the numbers.
    console = Console()
    Console(width=None if console.is_terminal else 130).print(table)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return str(value)


def arguments(description: str) -> argparse.Namespace:
    """The options of every benchmark: ``--quick`` and ``--device``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="few repetitions, for a first look")
    parser.add_argument("--device", default="cpu", help="torch device, cpu or cuda")
    return parser.parse_args()
