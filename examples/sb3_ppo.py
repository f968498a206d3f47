"""PPO of Stable-Baselines3 with a bonus, saved and continued.

python examples/sb3_ppo.py --reward mmrs --weight 0.1
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from mmrs.adapters.sb3 import BonusCallback


def main() -> None:
    """Train, save model and bonus, load both, train on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reward", default="mmrs")
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=2048)
    args = parser.parse_args()

    envs = make_vec_env("CartPole-v1", n_envs=4, seed=0)
    model = PPO("MlpPolicy", envs, n_steps=128, seed=0, device="cpu", verbose=1)
    bonus = BonusCallback(args.reward, weight=args.weight)
    model.learn(args.steps, callback=bonus)

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        bonus.save(Path(folder, "bonus"))

        continued = BonusCallback(args.reward, weight=args.weight)
        continued.load(Path(folder, "bonus"))
        model = PPO.load(Path(folder, "model"), env=envs, device="cpu")
        model.learn(args.steps, callback=continued, reset_num_timesteps=False)
    print(f"the bonus was trained {continued.reward.updates} times over both runs")


if __name__ == "__main__":
    main()
