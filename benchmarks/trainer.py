"""The trainer on one CPU core: plain PPO beside Stable-Baselines3's with the same numbers and network, in one run.

Also how near PPO comes to stepping alone on AntBullet, and what MMRS adds on Bullet. Every measurement is a process of
its own on one core; they take turns, and the table shows medians. Run it with `python -m benchmarks.trainer`.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.timing import machine, print_table, write_results
from mmrs.agents.ppo import PPOConfig
from mmrs.experiments.build import build_envs, build_trainer
from mmrs.experiments.presets import default_config

ALIEN, PENDULUM, ANT = "ALE/Alien-v5", "InvertedPendulumBulletEnv-v0", "AntBulletEnv-v0"
ENVS, STEPS = 8, 128
SECONDS = {ALIEN: 20.0, PENDULUM: 6.0, ANT: 8.0}
KINDS = [
    (ALIEN, "sb3"), (ALIEN, "ppo"), (ALIEN, "ppo bf16"),
    (PENDULUM, "sb3"), (PENDULUM, "ppo"), (PENDULUM, "ppo + mmrs"),
    (ANT, "stepping"), (ANT, "sb3"), (ANT, "ppo"), (ANT, "ppo + mmrs"),
]  # fmt: skip


def stepping(env: str) -> Iterator[None]:
    """The environments alone, with the actions of an untrained policy: standard normal, clipped."""
    envs = build_envs(default_config(env, "none").env)
    envs.reset(0)
    random, shape = np.random.default_rng(0), (STEPS, ENVS, *envs.action_space.shape)
    while True:
        for actions in np.clip(random.normal(size=shape), -1.0, 1.0).astype(np.float32):
            envs.step(actions)
        yield


def ours(env: str, kind: str) -> Iterator[None]:
    """This package's trainer."""
    config = default_config(env, "mmrs" if "mmrs" in kind else "none")
    config = replace(config, device="cpu", ppo=replace(config.ppo, bf16="bf16" in kind))
    for _ in build_trainer(replace(config, env=replace(config.env, threads=1))):
        yield


class PaperTrunk(nn.Module):
    """The convolutions of the appendix as Stable-Baselines3 wants a feature extractor."""

    features_dim = 512

    def __init__(self, observation_space: Any) -> None:
        super().__init__()
        channels = observation_space.shape[0]
        layers = [nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()]
        layers += [nn.Conv2d(64, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 49, 512), nn.ReLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def sb3(env: str) -> Iterator[None]:
    """Stable-Baselines3's PPO, a rollout and an update at a time."""
    from stable_baselines3 import PPO  # noqa: PLC0415
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env  # noqa: PLC0415
    from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize, VecTransposeImage  # noqa: PLC0415

    numbers = PPOConfig()
    if env == ALIEN:
        import ale_py  # noqa: PLC0415
        import gymnasium as gym  # noqa: PLC0415

        gym.register_envs(ale_py)
        envs = VecTransposeImage(VecFrameStack(make_atari_env("AlienNoFrameskip-v4", ENVS, seed=0), 4))
        policy, extra = "CnnPolicy", {"features_extractor_class": PaperTrunk, "net_arch": []}
    else:
        import pybullet_envs_gymnasium  # noqa: F401, PLC0415 (registers the environments)

        envs = VecNormalize(make_vec_env(env, ENVS, seed=0), gamma=numbers.gamma)
        policy, extra = "MlpPolicy", {}
    model = PPO(
        policy, envs, learning_rate=numbers.learning_rate, n_steps=STEPS, batch_size=256, n_epochs=numbers.epochs,
        gamma=numbers.gamma, gae_lambda=numbers.gae_lambda, clip_range=numbers.clip, clip_range_vf=numbers.clip,
        ent_coef=numbers.entropy_weight, max_grad_norm=numbers.max_grad_norm, device="cpu",
        policy_kwargs={**extra, "optimizer_kwargs": {"eps": numbers.adam_eps}},
    )  # fmt: skip
    total = ENVS * STEPS
    while True:
        model.learn(total, reset_num_timesteps=False)
        yield


def worker(env: str, kind: str) -> float:
    """Steps a second of one job, warmed up, on the one core this process was put on.

    By the processor's time of the process: what others take of the core is not counted.
    """
    torch.set_num_threads(1)
    job = stepping(env) if kind == "stepping" else sb3(env) if kind == "sb3" else ours(env, kind)
    for _ in range(2):
        next(job)
    began, rollouts = time.process_time(), 0
    while time.process_time() - began < SECONDS[env]:
        next(job)
        rollouts += 1
    return rollouts * ENVS * STEPS / (time.process_time() - began)


def measure(env: str, kind: str) -> float:
    """One measurement in a process of its own, held on one core."""
    command = [sys.executable, "-m", "benchmarks.trainer", "--worker", env, kind]
    core = max(os.sched_getaffinity(0))
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def run(quick: bool = False) -> dict[str, Any]:
    """Measure in turns, print, and return rates and ratios."""
    found: dict[tuple[str, str], list[float]] = {pair: [] for pair in KINDS}
    for _ in range(1 if quick else 3):
        for pair in KINDS:
            found[pair].append(measure(*pair))
    rates = {pair: float(np.median(values)) for pair, values in found.items()}
    ratios = {
        "Alien, PPO / SB3": (rates[ALIEN, "ppo"] / rates[ALIEN, "sb3"], 1.3),
        "Alien, PPO bf16 / SB3": (rates[ALIEN, "ppo bf16"] / rates[ALIEN, "sb3"], 1.8),
        "InvertedPendulum, PPO / SB3": (rates[PENDULUM, "ppo"] / rates[PENDULUM, "sb3"], 1.8),
        "Ant, PPO / stepping alone": (rates[ANT, "ppo"] / rates[ANT, "stepping"], 0.93),
        "Ant, SB3 / stepping alone": (rates[ANT, "sb3"] / rates[ANT, "stepping"], None),
        "Ant, PPO / PPO + MMRS": (rates[ANT, "ppo"] / rates[ANT, "ppo + mmrs"], None),
        "InvertedPendulum, PPO / PPO + MMRS": (rates[PENDULUM, "ppo"] / rates[PENDULUM, "ppo + mmrs"], None),
    }
    rows = [[env, kind, round(rate)] for (env, kind), rate in rates.items()]
    print_table("steps a second on one core", ["environment", "what", "steps/s"], rows)
    rows = [[name, round(value, 2), f"at least {least}" if least else ""] for name, (value, least) in ratios.items()]
    print_table("ratios", ["what", "ratio", "target"], rows)
    return {
        "machine": machine(),
        "steps_per_second": {f"{env} {kind}": rate for (env, kind), rate in rates.items()},
        "ratios": {name: value for name, (value, _) in ratios.items()},
        "rounds": {f"{env} {kind}": values for (env, kind), values in found.items()},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.worker:
        print(worker(*options.worker), flush=True)
        os._exit(0)  # jobs are cut off in the middle; nothing of them needs an orderly end
    print(write_results("trainer", run(options.quick)))
