"""It learns: the short runs; `benchmarks/learning.py` has the long ones."""

from dataclasses import replace

import pytest

from mmrs.runs.evaluate import EvalConfig, evaluate
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.presets import default_config
from mmrs.runs.train import train


@pytest.mark.parametrize("seed", range(3))
def test_cartpole_is_solved_within_100k_steps(tmp_path, seed):
    config = replace(default_config("CartPole-v1", "none"), seed=seed, root=tmp_path, name="run", quiet=True)
    assert config.steps == 100_000
    run, code = train(replace(config, device="cpu"))
    assert code == 0
    result = evaluate(EvalConfig(run.path, episodes=20))
    assert result.full_game.mean >= 475


def test_the_default_finds_the_key_the_door_and_the_goal(tmp_path):
    run, code = train(replace(default_config(), root=tmp_path, name="run", quiet=True, device="cpu"))
    assert code == 0
    rows = read_metrics(run.metrics).rows
    assert rows[10]["env/success"] == 0.0
    assert rows[-1]["env/success"] >= 0.95
    assert rows[-1]["env/states"] >= 38  # no shorter way there is
