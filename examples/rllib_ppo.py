"""PPO of RLlib (new API stack) with a bonus, two env runners and a checkpoint.

python examples/rllib_ppo.py --reward rnd --weight 0.1
"""

from __future__ import annotations

import argparse
import os
import secrets
import tempfile

# Ray listens on every network interface; clients need this token. Ray reads it when it is imported.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))

import ray
from ray.rllib.algorithms.ppo import PPO, PPOConfig

from mmrs.adapters.rllib import with_bonus


def main() -> None:
    """Train for a few iterations, save, restore, train on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reward", default="rnd")
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--runners", type=int, default=2)
    args = parser.parse_args()

    ray.init(num_cpus=args.runners + 1, include_dashboard=False, log_to_driver=False)
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=args.runners)
        .training(train_batch_size_per_learner=512, minibatch_size=128, num_epochs=4)
        .fault_tolerance(restart_failed_env_runners=True)
    )
    algorithm = with_bonus(config, args.reward, weight=args.weight).build_algo()
    for _ in range(args.iterations):
        print(algorithm.train()["learners"]["mmrs"])
    with tempfile.TemporaryDirectory() as folder:
        path = algorithm.save_to_path(folder)
        algorithm.stop()
        restored = PPO.from_checkpoint(path)  # the bonus is restored with it
        print(restored.train()["learners"]["mmrs"])
        restored.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
