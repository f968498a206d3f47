"""DQN of Stable-Baselines3 with a bonus: relabeled when sampled (rnd), or stored when collected (any causal reward).

python examples/sb3_dqn.py
python examples/sb3_dqn.py --reward ride --when store
"""

from __future__ import annotations

import argparse

from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

from mmrs.adapters.sb3 import BonusReplayBuffer, ReplayBonusCallback


def main() -> None:
    """Train for a few steps; the log shows the bonus as mmrs/..."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reward", default="rnd")
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--when", choices=["sample", "store"], default="sample")
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()

    envs = make_vec_env("MountainCar-v0", n_envs=2, seed=0)
    model = DQN(
        "MlpPolicy", envs, learning_starts=200, seed=0, device="cpu", verbose=1, replay_buffer_class=BonusReplayBuffer
    )
    bonus = ReplayBonusCallback(args.reward, weight=args.weight, when=args.when, train_every=256)
    model.learn(args.steps, callback=bonus)
    print(f"the bonus was trained {bonus.reward.updates} times")


if __name__ == "__main__":
    main()
