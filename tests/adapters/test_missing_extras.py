"""Without its optional dependency, an adapter names the extra to install; the rest of the package still works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

ADAPTERS = {
    "sb3": ("stable_baselines3", "mmrs[sb3]"),
    "sb3.off_policy": ("stable_baselines3", "mmrs[sb3]"),
    "rllib": ("ray", "mmrs[rllib]"),
    "torchrl": ("tensordict", "mmrs[torchrl]"),
}


def run(code: str) -> str:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ADAPTERS)
def test_error_names_the_extra(name: str) -> None:
    package, extra = ADAPTERS[name]
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"  # what an absent package looks like to an import
        "from mmrs.errors import MissingExtraError\n"
        f"try:\n    import mmrs.adapters.{name}\nexcept MissingExtraError as error:\n    print(error)"
    )
    assert f"pip install '{extra}'" in run(code)


def test_the_package_imports_no_engine() -> None:
    engines = {"stable_baselines3", "sb3_contrib", "ray", "torchrl", "tensordict"}
    code = "import sys, mmrs, mmrs.adapters.gymnasium; print(sorted(set(sys.modules)))"
    assert not engines & set(eval(run(code)))
