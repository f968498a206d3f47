"""Exploration of all methods, with fresh seeds, on the room worlds and on MiniGrid: success, first success, ablations.

`python -m benchmarks.exploration --study main --out runs.jsonl` runs what is missing from the file, many processes side
by side (studies: main, noise, key, multi, tuning and minigrid; the last two need the extra `minigrid`);
`--table runs.jsonl` writes `docs/results/exploration.md`.
"""

import argparse
import json
import multiprocessing
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.exploration_variants import (
    GRID_SEEDS,
    GRID_TUNING_SEEDS,
    KEY,
    MULTI,
    SEEDS,
    Variant,
    ablation_variants,
    grid_tuning_variants,
    grid_variants,
    main_variants,
    noise_variants,
)
from benchmarks.minigrid_worlds import register
from mmrs.runs.build import build_trainer

Row = dict[str, Any]
Key = tuple[str, str, str, int]


def run(variant: Variant, seed: int) -> Row:
    """Train once; returns success by tenths of the run, and states."""
    register()
    torch.set_num_threads(1)
    began, trainer = time.process_time(), build_trainer(variant.config(seed))
    collect, ended = trainer.collector.collect, []

    def record_infos() -> Any:
        data = collect()
        ended.append(data.episodes.infos)
        return data

    trainer.collector.collect = record_infos  # type: ignore[method-assign]
    for _ in trainer:
        pass
    trainer.collector.close()
    first = next((i for i, infos in enumerate(ended) if any(info["success"] for info in infos)), None)
    tenths = [[info for infos in part for info in infos] for part in np.array_split(np.array(ended, object), 10)]
    success = [float(np.mean([info["success"] for info in part])) if part else 0.0 for part in tenths]
    last = [info for part in tenths[8:] for info in part]
    return {
        "study": variant.study, "env": variant.env, "cell": variant.name, "seed": seed,
        "success": float(np.mean([info["success"] for info in last])) if last else 0.0,
        "auc": float(np.mean(success)),
        "first": None if first is None else (first + 1) * trainer.steps_per_update,
        "steps": trainer.total_updates * trainer.steps_per_update,
        "states": float(np.mean([info["states"] for info in last])) if last and "states" in last[0] else None,
        "seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def read(path: Path) -> list[Row]:
    """Rows of the file; none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def chosen_weights(rows: list[Row]) -> dict[tuple[str, str], float]:
    """The weight with the largest area under the success curve, of each method on each world."""
    found: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["study"] == "tuning":
            method, weight = row["cell"].split(", weight ")
            found[row["env"], method][float(weight)].append(row["auc"])
    return {key: max(sorted(auc), key=lambda w: np.mean(auc[w])) for key, auc in found.items()}


def jobs(study: str, rows: list[Row]) -> list[tuple[Variant, int]]:
    """Runs of a study that are not in the file yet; seed by seed, so that a file cut short is still balanced."""
    variants = {
        "main": main_variants,
        "noise": noise_variants,
        "key": lambda: ablation_variants(KEY),
        "multi": lambda: ablation_variants(MULTI),
        "tuning": grid_tuning_variants,
        "minigrid": lambda: grid_variants(chosen_weights(rows)),
    }[study]()
    seeds = {"tuning": GRID_TUNING_SEEDS, "minigrid": GRID_SEEDS}.get(study, SEEDS)
    done: set[Key] = {(row["study"], row["env"], row["cell"], row["seed"]) for row in rows}
    return [
        (variant, seed)
        for seed in seeds
        for variant in variants
        if (variant.study, variant.env, variant.name, seed) not in done
    ]


def work(job: tuple[Variant, int]) -> Row:
    """One job of the process pool."""
    return run(*job)


def main() -> None:
    """Run what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", nargs="+", default=["main"])
    parser.add_argument("--out", type=Path, default=Path("docs/results/exploration.jsonl"))
    parser.add_argument("--only", default="", help="a regular expression that cells' names must match")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start nothing after this long")
    parser.add_argument("--table", type=Path)
    options = parser.parse_args()
    if options.table:
        from benchmarks.exploration_page import write_page  # noqa: PLC0415

        print(write_page(read(options.table)))
        return
    began = time.time()
    register()
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool, options.out.open("a") as out:
        for study in options.study:
            todo = [job for job in jobs(study, read(options.out)) if re.search(options.only, job[0].name)]
            print(f"{study}: {len(todo)} runs", flush=True)
            for number, row in enumerate(pool.imap_unordered(work, todo), 1):
                out.write(json.dumps(row) + "\n")
                out.flush()
                if number % 20 == 0:
                    print(f"{study}: {number} of {len(todo)} runs, {time.time() - began:.0f} s", flush=True)
                if time.time() - began > options.seconds:
                    print("out of time", flush=True)
                    pool.terminate()
                    return


if __name__ == "__main__":
    main()
