"""Time to make the report of all the paper's runs: 26 games, 5 methods and 8 seeds, 1,000 rows each.

Run it with `make bench`, or `python -m benchmarks.report [--quick]`. The runs are fabricated: their records are as
long and as wide as real ones, but nothing was trained.
"""

import io
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from tests.support.browser import Browser, find_browser
from tests.support.runs import write_grid

from benchmarks.timing import arguments, machine, print_table, write_results
from mmrs.report.command import ReportConfig, report
from mmrs.report.reference_scores import ATARI, BULLET

GAMES = (*(f"ALE/{game}-v5" for game in ATARI), *(f"{game}BulletEnv-v0" for game in BULLET))
METHODS = ("none", "re3", "ride", "rnd", "mmrs")


def run(quick: bool = False) -> dict[str, Any]:
    """Build the page and, where there is a browser, open it."""
    seeds, rows = (2, 100) if quick else (8, 1000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_grid(folder / "runs", GAMES, METHODS, seeds, rows)
        size = sum(path.stat().st_size for path in (folder / "runs").rglob("*.jsonl"))
        wall, cpu = time.perf_counter(), time.process_time()
        page = report(ReportConfig((folder / "runs",), out=folder / "out"), Console(file=io.StringIO()))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        results = {
            "runs": len(GAMES) * len(METHODS) * seeds,
            "rows": rows,
            "record_megabytes": size / 1e6,
            "build_seconds": wall,
            "build_cpu_seconds": cpu,
            "page_megabytes": page.stat().st_size / 1e6,
            "open_seconds": _opened(page),
        }
    print_table("The report", ["", "value"], [[key.replace("_", " "), value] for key, value in results.items()])
    return {**results, "machine": machine()}


def _opened(page: Path) -> float | None:
    """Seconds until the page is ready in a browser that is already running."""
    if find_browser() is None:
        return None
    with Browser() as browser:
        began = time.perf_counter()
        browser.open(page.as_uri())
        browser.wait("document.documentElement.dataset.ready === 'yes'")
        return time.perf_counter() - began


if __name__ == "__main__":
    print(write_results("report", run(arguments("Time the report.").quick)))
