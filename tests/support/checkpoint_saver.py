"""Saves checkpoints in a tight loop until it is killed: what the kill test and its long script start.

Each tree has its step in every tensor, so a mixture of two saves would be noticed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from mmrs.runs.metrics_log import MetricsFile, Position
from mmrs.storage import checkpoint as store


def tree(step: int, metrics: Position) -> dict[str, Any]:
    """A state whose parts all hold the step."""
    tensors = {f"layer{i}": torch.full((4000,), float(step)) for i in range(8)}
    return {"net": tensors, "step": step, "metrics": list(metrics)}


def consistent(step: int, state: dict[str, Any]) -> bool:
    """Whether all parts hold this step."""
    return state["step"] == step and all(bool((t == step).all()) for t in state["net"].values())


def main(folder: Path) -> None:
    """Continue from the last checkpoint, one row and one save per step, and report each step once it is safe."""
    checkpoints = folder / "checkpoints"
    step, at = 0, None
    if store.checkpoints(checkpoints):
        step, state = store.load(checkpoints)
        at = Position(*state["metrics"])
    metrics = MetricsFile(folder / "metrics.jsonl", at)
    while True:
        step += 1
        metrics.append({"step": step})
        store.save(checkpoints, step, tree(step, metrics.position()))
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
