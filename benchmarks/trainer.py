"""The trainer on one CPU core: plain PPO and Stable-Baselines3's PPO with the same hyperparameters and network.

It also compares PPO with stepping alone on three Bullet games, and measures what MMRS adds on the six Bullet games. The
two sides of a comparison alternate, one rollout each, in one process on one core. Run it with
`python -m benchmarks.trainer`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

from benchmarks.timing import machine, print_table, write_results
from mmrs.envs.bullet import BULLET_GAMES, make_bullet
from mmrs.ppo.ppo import PPOConfig
from mmrs.ppo.trainer import Trainer
from mmrs.runs.build import build_trainer
from mmrs.runs.config import TrainConfig
from mmrs.runs.presets import default_config

ALIEN, PENDULUM = "ALE/Alien-v5", "InvertedPendulumBulletEnv-v0"
ANT, HOPPER, CHEETAH = "AntBulletEnv-v0", "HopperBulletEnv-v0", "HalfCheetahBulletEnv-v0"
ENVS, STEPS = 8, 128
WARM_UP = 3
"""Rollouts of each side before the clock starts."""


@dataclass(frozen=True)
class Comparison:
    """Two sides that alternate in one process."""

    env: str
    ours: str
    theirs: str
    name: str
    target: str = ""
    times: bool = False
    """Compare times instead of speeds."""
    seconds: float = 18.0
    """Processor time of the two together."""


COMPARISONS = [
    Comparison(ALIEN, "ppo", "sb3", "PPO / SB3", "at least 1.35", seconds=25.0),
    Comparison(ALIEN, "ppo bf16", "sb3", "PPO in bfloat16 / SB3", seconds=25.0),
    *(
        Comparison(env, "ppo", "steps of ppo", "PPO / the same steps alone", f"at least {share}")
        for env, share in ((ANT, 0.92), (HOPPER, 0.88), (CHEETAH, 0.90))
    ),
    *(Comparison(env, "ppo", "sb3", "PPO / SB3", "at least 1.15") for env in (ANT, HOPPER, CHEETAH)),
    Comparison(PENDULUM, "ppo", "sb3", "PPO / SB3"),
    *(
        Comparison(
            env, "ppo + mmrs", "ppo", "time of PPO + MMRS / of PPO", "at most 1.2" * (env in (ANT, HOPPER, CHEETAH)),
            times=True,
        )
        for env in BULLET_GAMES
    ),
]  # fmt: skip


def configured(env: str, kind: str) -> TrainConfig:
    """This package's trainer with its defaults, on one core."""
    config = default_config(env, "mmrs" if "mmrs" in kind else "none")
    config = replace(config, device="cpu", ppo=replace(config.ppo, bf16="bf16" in kind))
    return replace(config, env=replace(config.env, threads=1))


def steps_of(trainer: Trainer, env: str) -> Iterator[None]:
    """Gymnasium's own vector environment alone, with the actions of the trainer's newest rollout."""
    (group,) = trainer.collector.groups
    makers = [partial(make_bullet, env)] * ENVS
    envs = SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=group.envs._seeds(np.ones(ENVS, bool)).tolist())
    while True:
        for actions in trainer.collector.step_buffer.actions.numpy():
            envs.step(actions)
        yield


class PaperTrunk(nn.Module):
    """The convolutions of the appendix as a feature extractor of Stable-Baselines3."""

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
    """Stable-Baselines3's PPO; each item is one rollout and one update."""
    from stable_baselines3 import PPO  # noqa: PLC0415
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env  # noqa: PLC0415
    from stable_baselines3.common.vec_env import VecFrameStack, VecNormalize, VecTransposeImage  # noqa: PLC0415

    ppo = PPOConfig()
    if env == ALIEN:
        import ale_py  # noqa: PLC0415
        import gymnasium as gym  # noqa: PLC0415

        gym.register_envs(ale_py)
        envs = VecTransposeImage(VecFrameStack(make_atari_env("AlienNoFrameskip-v4", ENVS, seed=0), 4))
        policy, extra = "CnnPolicy", {"features_extractor_class": PaperTrunk, "net_arch": []}
    else:
        import pybullet_envs_gymnasium  # noqa: F401, PLC0415 (registers the environments)

        envs = VecNormalize(make_vec_env(env, ENVS, seed=0), gamma=ppo.gamma)
        policy, extra = "MlpPolicy", {}
    model = PPO(
        policy, envs, learning_rate=ppo.learning_rate, n_steps=STEPS, batch_size=256, n_epochs=ppo.epochs,
        gamma=ppo.gamma, gae_lambda=ppo.gae_lambda, clip_range=ppo.clip, clip_range_vf=ppo.clip,
        ent_coef=ppo.entropy_weight, max_grad_norm=ppo.max_grad_norm, device="cpu",
        policy_kwargs={**extra, "optimizer_kwargs": {"eps": ppo.adam_eps}},
    )  # fmt: skip
    total = ENVS * STEPS
    while True:
        model.learn(total, reset_num_timesteps=False)
        yield


def turns(number: int) -> tuple[float, float]:
    """Steps per second of the two, by processor time: other work on the core does not count."""
    torch.set_num_threads(1)
    what = COMPARISONS[number]
    trainer = build_trainer(configured(what.env, what.ours))
    if what.theirs == "sb3":
        other: Iterator[Any] = sb3(what.env)
    elif what.theirs == "ppo":
        other = iter(build_trainer(configured(what.env, what.theirs)))
    else:
        other = steps_of(trainer, what.env)
    jobs, spent, rollouts = (iter(trainer), other), [0.0, 0.0], -WARM_UP
    while rollouts < 2 or sum(spent) < what.seconds:
        for i, job in enumerate(jobs):
            began = time.process_time()
            next(job)
            spent[i] += time.process_time() - began if rollouts >= 0 else 0.0
        rollouts += 1
    return rollouts * ENVS * STEPS / spent[0], rollouts * ENVS * STEPS / spent[1]


def measure(number: int) -> tuple[float, float]:
    """One comparison in a process of its own, held on one core."""
    command = [sys.executable, "-m", "benchmarks.trainer", "--worker", str(number)]
    core = max(os.sched_getaffinity(0))
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )  # fmt: skip
    ours, theirs = json.loads(done.stdout.splitlines()[-1])
    return ours, theirs


def run(quick: bool = False) -> dict[str, Any]:
    """Measure, print and return rates and ratios: medians and ranges over processes."""
    rows, results = [], []
    for number, what in enumerate(COMPARISONS):
        rates = np.array([measure(number) for _ in range(1 if quick else 3)])  # [processes, 2]
        ratios = np.sort(rates[:, 1] / rates[:, 0] if what.times else rates[:, 0] / rates[:, 1])
        ours, theirs = np.median(rates, 0)
        ratio = f"{np.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        rows.append([what.env, what.name, f"{ours:,.0f}", f"{theirs:,.0f}", ratio, what.target])
        results.append({**asdict(what), "steps_per_second": rates.tolist(), "ratios": ratios.tolist()})
    columns = ["environment", "what", "steps/s", "of the other", "ratio (range)", "target"]
    print_table("one core, medians over processes", columns, rows)
    return {"machine": machine(), "comparisons": results}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", type=int)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.worker is not None:
        print(json.dumps(turns(options.worker)), flush=True)
        os._exit(0)  # the jobs are interrupted; nothing in them needs an orderly end
    print(write_results("trainer", run(options.quick)))
