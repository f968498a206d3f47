"""A bonus makes PPO solve a sparse task that it does not solve alone: the short form of docs/results/sb3_sparse.md."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def example() -> Any:
    spec = importlib.util.spec_from_file_location("sb3_sparse", ROOT / "examples" / "sb3_sparse.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ppo_with_a_bonus_solves_what_ppo_alone_does_not() -> None:
    sparse = example()
    alone, explored = sparse.train(None, 0, 20_000), sparse.train("mmrs", 0, 20_000)
    assert alone["at"] is None
    assert alone["solved"] == 0.0
    assert explored["at"] is not None
    assert explored["solved"] > 0.9


def test_the_page_shows_the_runs() -> None:
    runs = json.loads((ROOT / "docs" / "results" / "sb3_sparse.json").read_text())
    page = (ROOT / "docs" / "results" / "sb3_sparse.md").read_text()
    for row in example().table(runs).splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if cells[0] in ("none", "mmrs", "re3"):
            assert " | ".join(cells[1:]) in page
