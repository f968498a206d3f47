"""Run folders made up for the tests of the report: the same files as `mmrs train` writes, without the training."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from mmrs.report.build import build_report
from mmrs.report.collect import collect
from mmrs.report.data import ReportData
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import to_json
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.presets import default_config
from mmrs.runs.upgrade import SCHEMA

GAMES = ("ALE/Alien-v5", "ALE/Breakout-v5", "HopperBulletEnv-v0", "CartPole-v1")
KEYS = (
    *("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "grad_norm", "explained_variance", "seconds"),
    *("episode_return", "game_return", "game_length", "bonus_advantage_share", "steps_per_second"),
    *(f"reward/{term}{end}" for term in ("global", "local", "extrinsic") for end in ("", "_std", "_share")),
)


def made_up(env: str, bonus: str, seed: int, **changes) -> TrainConfig:
    return replace(default_config(env, bonus), seed=seed, **changes)


def write_run(
    folder: Path, config: TrainConfig, rows: int = 20, *, done: float = 1.0, score=None, version="0.1.0", tail=""
) -> Path:
    """A run's folder: `rows` rows over the first `done` of its steps, its last returns being `score`."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"schema": SCHEMA, "config": to_json(config)}))
    values = np.random.default_rng(config.seed).random((rows, len(KEYS)))
    final = 100.0 + config.seed if score is None else score
    course = final * np.arange(1, rows + 1) / rows
    for name in ("episode_return", "game_return"):
        values[:, KEYS.index(name)] = course
    steps = (np.arange(1, rows + 1) * config.steps * done / rows).astype(int).tolist()
    row = '{"step": %d, ' + ", ".join(f'"{key}": %.12f' for key in KEYS) + "}\n"
    lines = "".join(row % (step, *numbers) for step, numbers in zip(steps, values.tolist(), strict=True))
    (folder / "metrics.jsonl").write_text(lines + tail)
    if version:
        start = {"event": "start", "time": "2026-01-01T00:00:00+00:00", "step": 0, "version": version}
        (folder / "attempts.jsonl").write_text(
            json.dumps(start | {"command": f"mmrs train --seed {config.seed}"}) + "\n"
        )
    return folder


def write_grid(root: Path, envs, bonuses, seeds: int, rows: int = 20) -> None:
    """Every method in every game with every seed; later methods score higher."""
    for env in envs:
        for place, bonus in enumerate(bonuses):
            for seed in range(seeds):
                name = f"{env}-{bonus}-{seed}".replace("/", "-")
                write_run(root / name, made_up(env, bonus, seed), rows, score=100.0 * (place + 1) + seed)


def made(*folders: Path) -> ReportData:
    return build_report(collect(folders))


def quiet() -> Console:
    return Console(file=io.StringIO(), width=300)


TIMES = {"seconds", "steps_per_second"}


def small(tmp_path, env="CartPole-v1", bonus="none", steps=6 * 128, name="run", **changes):
    config = default_config(env, bonus)
    config = replace(config, steps=steps, num_steps=32, root=tmp_path, name=name, quiet=True, device="cpu", seed=3)
    config = replace(config, env=replace(config.env, num_envs=4), checkpoint_every=2, **changes)
    assert config.threads == 1
    return config


def rows(folder):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(folder / "metrics.jsonl").rows]
