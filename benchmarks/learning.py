"""Learning curves of this package's PPO and of Stable-Baselines3's with the same settings, many runs side by side.

`python -m benchmarks.learning --out results.jsonl` writes the mean return (last 100 episodes) at intervals for each
run; `python -m benchmarks.learning --table results.jsonl` prints the table of `docs/results/learning.md`.
"""

import argparse
import json
import multiprocessing
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from mmrs.ppo.ppo import PPOConfig
from mmrs.runs.build import build_trainer
from mmrs.runs.presets import default_config
from mmrs.stats import difference_interval, mean_interval

Job = tuple[str, str, int, int]
"""Engine ("mmrs" or "sb3"), environment, seed, steps."""
BULLET = ("HalfCheetahBulletEnv-v0", "HopperBulletEnv-v0")
JOBS: list[Job] = [  # the longest first
    *((engine, env, seed, 500_000) for env in BULLET for engine in ("sb3", "mmrs") for seed in range(5)),
    *(("mmrs", "InvertedPendulumBulletEnv-v0", seed, 300_000) for seed in range(3)),
    *(("mmrs", "CartPole-v1", seed, 100_000) for seed in range(3)),
]


def write(out: Path, job: Job, step: int, value: float, began: float) -> None:
    """Append a row; one short write, so rows of several processes do not mix."""
    row = {"engine": job[0], "env": job[1], "seed": job[2], "step": step, "return": value}
    with out.open("a") as file:
        file.write(json.dumps({**row, "seconds": round(time.time() - began, 1)}) + "\n")


def run_mmrs(job: Job, out: Path) -> None:
    """This package's PPO without a bonus."""
    _, env, seed, steps = job
    config = replace(default_config(env, "none"), steps=steps, seed=seed, device="cpu")
    if env in BULLET:  # as Stable-Baselines3 does it; our default is the cited code's
        config = replace(config, ppo=replace(config.ppo, normalize_advantages="minibatch"))
    trainer, began = build_trainer(config), time.time()
    for row in trainer:
        if "game_return" in row and (row["update"] % 10 == 0 or row["update"] == trainer.total_updates):
            write(out, job, row["step"], row["game_return"], began)
    trainer.collector.close()


def run_sb3(job: Job, out: Path) -> None:
    """Stable-Baselines3's PPO with the settings of our preset; observations and rewards are normalized as ours."""
    import pybullet_envs_gymnasium  # noqa: F401, PLC0415 (registers the environments)
    from stable_baselines3 import PPO  # noqa: PLC0415
    from stable_baselines3.common.callbacks import BaseCallback  # noqa: PLC0415
    from stable_baselines3.common.env_util import make_vec_env  # noqa: PLC0415
    from stable_baselines3.common.vec_env import VecNormalize  # noqa: PLC0415

    _, env, seed, steps = job
    began, settings = time.time(), PPOConfig()

    class Report(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            episodes = self.model.ep_info_buffer
            if episodes and (self.num_timesteps // 1024 % 10 == 0 or self.num_timesteps >= steps):
                write(out, job, self.num_timesteps, float(np.mean([e["r"] for e in episodes])), began)

    envs = VecNormalize(make_vec_env(env, 8, seed=seed), gamma=settings.gamma)
    model = PPO(
        "MlpPolicy", envs, learning_rate=lambda left: settings.learning_rate * left, n_steps=128, batch_size=256,
        n_epochs=settings.epochs, gamma=settings.gamma, gae_lambda=settings.gae_lambda, clip_range=settings.clip,
        clip_range_vf=settings.clip, ent_coef=settings.entropy_weight,
        vf_coef=settings.value_weight / 2,  # our value loss is half the squared error, as in the cited code
        max_grad_norm=settings.max_grad_norm, seed=seed, device="cpu",
        policy_kwargs={"optimizer_kwargs": {"eps": settings.adam_eps}},
    )  # fmt: skip
    model.learn(steps, callback=Report())


def run_job(job: Job, out: Path) -> None:
    """One run in a process of its own."""
    torch.set_num_threads(1)
    (run_sb3 if job[0] == "sb3" else run_mmrs)(job, out)


def table(path: Path) -> str:
    """The last row of each run as Markdown: mean, 95 % bootstrap interval over seeds, each seed; then differences."""
    last: dict[tuple[str, str], dict[int, dict[str, float]]] = defaultdict(dict)
    for line in path.read_text().splitlines():
        row = json.loads(line)
        last[row["env"], row["engine"]][row["seed"]] = row
    lines = ["| environment | engine | steps | return, mean [95 %] | each seed |", "|---|---|---|---|---|"]
    returns = {}
    for (env, engine), rows in sorted(last.items()):
        values = returns[env, engine] = np.array([rows[seed]["return"] for seed in sorted(rows)])
        low, high = mean_interval(values)
        steps = min(row["step"] for row in rows.values())
        each = ", ".join(f"{value:.0f}" for value in values)
        lines.append(f"| {env} | {engine} | {steps:,.0f} | {values.mean():.0f} [{low:.0f}, {high:.0f}] | {each} |")
    lines += ["", "| environment | ours minus Stable-Baselines3's, mean [95 %] |", "|---|---|"]
    for (env, engine), values in returns.items():
        if engine == "mmrs" and (env, "sb3") in returns:
            low, high = difference_interval(values, returns[env, "sb3"])
            difference = values.mean() - returns[env, "sb3"].mean()
            lines.append(f"| {env} | {difference:.0f} [{low:.0f}, {high:.0f}] |")
    return "\n".join(lines)


def main() -> None:
    """Run the jobs, or print the table of a finished file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("learning.jsonl"))
    parser.add_argument("--table", type=Path)
    parser.add_argument("--only", default="", help="parts of environment ids, with commas")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
        return
    jobs = [(job, options.out) for job in JOBS if any(part in job[1] for part in options.only.split(","))]
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=1) as pool:
        pool.starmap(run_job, jobs, chunksize=1)
    print(table(options.out))


if __name__ == "__main__":
    main()
