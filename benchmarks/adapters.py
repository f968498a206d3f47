"""What the Stable-Baselines3 callback costs beyond the reward's own compute and update.

CPU time of one thread; plain runs and runs with a bonus alternate. The cost is measured twice: by clocks inside the
callback (median), and as best run with a bonus - best plain run - the reward's own time. The latter depends on the
caches of a busy machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import mmrs
from benchmarks.timing import threads
from mmrs.adapters.sb3 import BonusCallback

TARGET = 0.03
SINGLE = gym.make("CartPole-v1")
SETTINGS: dict[str, dict[str, Any]] = {
    "8 environments, 128 steps": {"n_envs": 8, "n_steps": 128},
    "1 environment, 2048 steps (SB3's default)": {"n_envs": 1, "n_steps": 2048},
}


class Timed(BonusCallback):
    """The callback with clocks for itself and for its reward."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.callback_s = self.reward_s = 0.0
        for name in ("_on_training_start", "_on_rollout_start", "_on_step", "_on_rollout_end"):
            setattr(self, name, self._clocked(getattr(self, name), "callback_s"))

    def _clocked(self, call: Callable[..., Any], total: str) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            start = time.process_time()
            out = call(*args)
            setattr(self, total, getattr(self, total) + time.process_time() - start)
            return out

        return timed

    def _init_callback(self) -> None:
        super()._init_callback()
        reward = self.reward
        for name in ("compute_terms", "update"):
            object.__setattr__(reward, name, self._clocked(getattr(reward, name), "reward_s"))


def seconds(settings: dict[str, Any], callback: Any, rollouts: int) -> float:
    envs = make_vec_env("CartPole-v1", n_envs=settings["n_envs"], seed=0)
    model = PPO("MlpPolicy", envs, n_steps=settings["n_steps"], seed=0, device="cpu")
    start = time.process_time()
    model.learn(rollouts * settings["n_envs"] * settings["n_steps"], callback=callback)
    return time.process_time() - start


def measure(settings: dict[str, Any], reward: str, rollouts: int, repeats: int) -> dict[str, float]:
    plain, total, reward_s, callback_s = [], [], [], []
    for _ in range(repeats):
        plain.append(seconds(settings, None, rollouts))
        # Made outside the clock, because it is made once; weight 0, so that both runs take the same steps.
        callback = Timed(mmrs.make(reward, SINGLE.observation_space, SINGLE.action_space), weight=0.0)
        total.append(seconds(settings, callback, rollouts))
        reward_s.append(callback.reward_s)
        callback_s.append(callback.callback_s - callback.reward_s)
    share = statistics.median(own / whole for own, whole in zip(callback_s, plain, strict=True))
    return {
        "plain_s": min(plain),
        "with_bonus_s": min(total),
        "reward_s": min(reward_s),
        "callback_share": share,
        "share_by_difference": (min(total) - min(plain) - min(reward_s)) / min(plain),
        "target": TARGET,
        "met": share <= TARGET,
    }


def run(rollouts: int = 4, repeats: int = 5) -> dict[str, Any]:
    results = {}
    columns = [f"{name:>9}" for name in ("plain", "bonus", "reward", "callback", "by diff.", "target")]
    print(f"{'PPO on CartPole with mmrs':42}", *columns)
    for name, settings in SETTINGS.items():
        with threads(1):
            row = measure(settings, "mmrs", rollouts if settings["n_envs"] > 1 else max(1, rollouts // 2), repeats)
        results[name] = row
        times = [f"{row[key]:8.2f}s" for key in ("plain_s", "with_bonus_s", "reward_s")]
        shares = [f"{share:9.2%}" for share in (row["callback_share"], row["share_by_difference"], TARGET)]
        print(f"{name:42}", *times, *shares)
    return {"sb3_callback": results}


if __name__ == "__main__":
    run()
