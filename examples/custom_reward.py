"""A reward of one's own, registered from outside the package, and used by name in somebody else's PPO.

python examples/custom_reward.py
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import mmrs
from mmrs.adapters.sb3 import BonusCallback


class Farthest(mmrs.IntrinsicReward):
    """Pays for each new greatest distance from where the episode started.

    `score` is pure: what it must remember from rollout to rollout goes in and out as `memory`.
    """

    causal = True  # step t needs nothing later than step t, so hosts that go step by step may use it too

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], *, seed: int = 0) -> None:
        super().__init__(observation_space, action_space, seed=seed)

    def initial_memory(self, num_envs: int, device: torch.device) -> dict[str, torch.Tensor]:
        """Where each episode started, how far it got, and whether it is about to start."""
        return {
            "start": torch.zeros(num_envs, self.observation_spec.size, device=device),
            "record": torch.zeros(num_envs, device=device),
            "fresh": torch.ones(num_envs, dtype=torch.bool, device=device),
        }

    def score(self, rollout: mmrs.Rollout, memory: Any) -> tuple[dict[str, torch.Tensor], Any]:
        """The increase of the record at each step."""
        before, after = rollout.pairs(self.observation_spec.features)  # each state read once, true last states used
        starts = rollout.starts(memory["fresh"])
        start, record, bonus = (
            memory["start"],
            memory["record"],
            torch.zeros(rollout.valid.shape, device=rollout.device),
        )
        for t in range(rollout.num_steps):
            start = torch.where(starts[t, :, None], before[t], start)
            record = torch.where(starts[t], 0.0, record)
            distance = torch.where(rollout.valid[t], (after[t] - start).norm(dim=-1), 0.0)
            bonus[t] = (distance - record).clamp_min(0.0)
            record = torch.maximum(record, distance)
        return {"farthest": bonus}, {"start": start, "record": record, "fresh": rollout.fresh_after}


mmrs.register("farthest", Farthest)


def main() -> None:
    """Train for a little while with the new reward, by its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2048)
    args = parser.parse_args()
    model = PPO("MlpPolicy", make_vec_env("MountainCar-v0", n_envs=4, seed=0), n_steps=128, seed=0, device="cpu")
    bonus = BonusCallback("farthest", weight=1.0)
    model.learn(args.steps, callback=bonus)
    print(f"farthest so far in the running episodes: {bonus.hosted.memory['record'].tolist()}")


if __name__ == "__main__":
    main()
