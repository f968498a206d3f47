"""Any causal reward on any Gymnasium vector environment; the training code needs no change.

python examples/gymnasium_wrapper.py --env CartPole-v1 --reward rnd
"""

from __future__ import annotations

import argparse

import gymnasium as gym
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from mmrs.adapters.gymnasium import BonusVectorWrapper


def main() -> None:
    """Take random actions and print both parts of the reward every 200 steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--reward", default="rnd")
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()

    envs = gym.make_vec(args.env, num_envs=4)
    envs = RecordEpisodeStatistics(envs)  # below the bonus: it reports the extrinsic score
    envs = BonusVectorWrapper(envs, args.reward, weight=args.weight, train_every=256)

    envs.reset(seed=0)
    envs.action_space.seed(0)
    for step in range(args.steps):
        _, reward, _, _, info = envs.step(envs.action_space.sample())
        if step % 200 == 0:
            print(f"step {step}: reward {reward.round(3)} = {info['extrinsic_reward']} + {info['bonus'].round(3)}")
    print(f"the bonus was trained {envs.reward.updates} times")
    envs.close()


if __name__ == "__main__":
    main()
