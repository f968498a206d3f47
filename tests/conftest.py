"""Settings of the whole suite: deterministic hypothesis, one torch thread per process, and the selection `--fast`."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# Network rewards take milliseconds per example and share two cores, so a deadline would only measure the machine.
settings.register_profile(
    "mmrs", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fast", settings.get_profile("mmrs"), max_examples=5)
settings.load_profile("mmrs")
torch.set_num_threads(1)

TESTS = Path(__file__).parent
FAST = {"kind": {"vector", "image_hwc", "discrete_start"}, "actions": {"discrete", "multi_discrete", "box"}}
"""Spaces of the contract suite that `--fast` keeps: one of each kind."""
NOT_FAST = [
    TESTS / path
    for path in (
        "adapters",
        "audit",
        "envs/maze/test_maze.py",
        "envs/test_async_envs.py",
        "envs/test_atari.py",
        "envs/test_regrouping.py",
        "envs/test_replay.py",
        "envs/test_subprocess_envs.py",
        "faults",
        "gpu",
        "paper/bounds",
        "paper/maze/test_experiment.py",
        "paper/test_q_learning.py",
        "ppo/test_collector.py",
        "report/test_report.py",
        "rewards/test_memory.py",
        "runs/test_after_training.py",
        "runs/test_folder.py",
        "runs/test_learning.py",
        "runs/test_presets.py",
        "runs/test_regrouping.py",
        "runs/test_signals.py",
        "runs/test_train.py",
        "runs/test_wandb.py",
        "sweeps/test_compare.py",
        "sweeps/test_cost.py",
        "sweeps/test_job.py",
        "sweeps/test_scheduler.py",
        "test_plugins.py",
        "test_api.py",
    )
]
"""Modules that `--fast` does not import: they take two seconds or more, start processes or have heavy dependencies."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only the quick tests, as `make fast` runs them")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("fast"):
        settings.load_profile("fast")
        if missing := [str(path) for path in NOT_FAST if not path.exists()]:
            raise pytest.UsageError(f"tests/conftest.py lists modules that do not exist: {', '.join(missing)}")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("fast") and collection_path in NOT_FAST else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("fast"):
        left_out = [item for item in items if not _is_fast(item)]
        items[:] = [item for item in items if _is_fast(item)]
        config.hook.pytest_deselected(items=left_out)


def _is_fast(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(mark) for mark in ("slow", "browser", "ray")):
        return False
    if TESTS / "contract" not in item.path.parents or not hasattr(item, "callspec"):
        return True
    return all(item.callspec.params.get(name) in (None, *kept) for name, kept in FAST.items())
