"""Runs every benchmark of this folder: each module with a function `run`; the results go to ``results/``."""

import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

from benchmarks.timing import arguments, write_results

FOLDER = Path(__file__).resolve().parent


def main() -> None:
    """Run the benchmarks one after the other; each gets the options that it has parameters for."""
    options = vars(arguments("Run every benchmark."))
    suffix = "" if options["device"] == "cpu" else "-cuda"
    for entry in pkgutil.iter_modules([str(FOLDER)]):
        if entry.name.startswith("_"):
            continue
        run = getattr(importlib.import_module(f"benchmarks.{entry.name}"), "run", None)
        if run is None:
            continue
        known = inspect.signature(run).parameters
        results: dict[str, Any] | None = run(**{name: value for name, value in options.items() if name in known})
        if results is not None:
            print(write_results(entry.name + suffix, results))


if __name__ == "__main__":
    main()
