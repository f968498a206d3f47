"""Every example runs from the shell as documented, and its page shows the whole script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHORT = {
    "custom_reward": ["--steps", "512"],
    "gymnasium_wrapper": ["--steps", "300"],
    "ppo_single_file": ["--iterations", "2"],
    "rllib_ppo": ["--iterations", "1", "--runners", "1"],
    "sb3_dqn": ["--steps", "600"],
    "sb3_ppo": ["--steps", "512"],
    "sb3_sparse": ["--seeds", "1", "--steps", "2000", "--bonuses", "none", "re3"],
    "torchrl_hook": ["--steps", "1024"],
}
PAGES = {
    "custom_reward": "custom_reward.md",
    "gymnasium_wrapper": "gymnasium.md",
    "ppo_single_file": "own_loop.md",
    "rllib_ppo": "rllib.md",
    "sb3_dqn": "stable_baselines3_off_policy.md",
    "sb3_ppo": "stable_baselines3.md",
    "torchrl_hook": "torchrl.md",
}


def test_no_example_is_left_out() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == SHORT.keys()
    assert {path.name for path in (ROOT / "docs" / "engines").glob("*.md")} - {"index.md"} == set(PAGES.values())


@pytest.mark.parametrize("name", SHORT)
def test_example_runs(name: str) -> None:
    # One thread: several processes with two threads each on two cores wait for one another.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *SHORT[name]]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()


@pytest.mark.parametrize("name", PAGES)
def test_page_shows_the_script_that_runs(name: str) -> None:
    page = (ROOT / "docs" / "engines" / PAGES[name]).read_text()
    script = (ROOT / "examples" / f"{name}.py").read_text()
    assert f"```python\n{script}```" in page, f"docs/engines/{PAGES[name]} shows another version of examples/{name}.py"
