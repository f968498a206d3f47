"""A custom reward, registered from outside the package and used by name in the PPO of Stable-Baselines3.

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
    """A bonus for each new greatest distance from the start state of the episode.

    `score` is pure: state that is needed in the next rollout is passed in and out as `memory`.
    """

    causal = True  # step t needs nothing later than step t, so step-by-step hosts may use it too

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], *, seed: int = 0) -> None:
        super().__init__(observation_space, action_space, seed=seed)

    def initial_memory(self, num_envs: int, device: torch.device) -> dict[str, torch.Tensor]:
        """Start state of each episode, its greatest distance, and whether the next step begins an episode."""
        return {
            "start": torch.zeros(num_envs, self.observation_spec.size, device=device),
            "record": torch.zeros(num_envs, device=device),
            "starts_episode": torch.ones(num_envs, dtype=torch.bool, device=device),
        }

    def score(self, rollout: mmrs.Rollout, memory: Any) -> tuple[dict[str, torch.Tensor], Any]:
        """The increase of the record at each step."""
        before, after = rollout.map_pairs(self.observation_spec.features)  # once per state, with true last states
        starts = rollout.episode_starts(memory["starts_episode"])
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
        return {"farthest": bonus}, {"start": start, "record": record, "starts_episode": rollout.next_starts_episode}


mmrs.register("farthest", Farthest)


def main() -> None:
    """Train for a few steps with the new reward, by its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2048)
    args = parser.parse_args()
    model = PPO("MlpPolicy", make_vec_env("MountainCar-v0", n_envs=4, seed=0), n_steps=128, seed=0, device="cpu")
    bonus = BonusCallback("farthest", weight=1.0)
    model.learn(args.steps, callback=bonus)
    print(f"greatest distances of the running episodes: {bonus.reward_host.memory['record'].tolist()}")


if __name__ == "__main__":
    main()
