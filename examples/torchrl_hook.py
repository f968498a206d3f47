"""PPO in TorchRL with a bonus: one line between the collector and the advantages.

python examples/torchrl_hook.py --reward rnd --weight 0.1
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, SerialEnv
from torchrl.modules import OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import mmrs
from mmrs.adapters.torchrl import BonusHook


def main() -> None:
    """Train on CartPole for a few batches and print the bonus and the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reward", default="rnd")
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=2048)
    args = parser.parse_args()
    torch.manual_seed(0)

    envs = SerialEnv(4, lambda: GymEnv("CartPole-v1"))
    policy = nn.Sequential(nn.LazyLinear(64), nn.Tanh(), nn.Linear(64, 2))
    actor = ProbabilisticActor(
        TensorDictModule(policy, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(nn.Sequential(nn.LazyLinear(64), nn.Tanh(), nn.Linear(64, 1)), in_keys=["observation"])
    collector = Collector(
        envs, actor, frames_per_batch=512, total_frames=args.steps, auto_register_policy_transforms=False
    )
    critic(envs.reset())  # gives the lazy layers their shapes
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), 3e-4)

    single = gym.make("CartPole-v1")
    hook = BonusHook(mmrs.make(args.reward, single.observation_space, single.action_space), weight=args.weight)

    for batch in collector:
        metrics = hook(batch)  # the bonus goes into ("next", "reward") ...
        advantage(batch)  # ... before the advantages are computed from it
        for _ in range(4):
            for minibatch in batch.reshape(-1).split(128):
                losses = loss(minibatch)
                total = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
        extrinsic = batch["next", "extrinsic_reward"].mean().item()
        print(f"bonus {metrics['bonus']:+.4f} per step, extrinsic {extrinsic:.2f} per step")
    collector.shutdown()


if __name__ == "__main__":
    main()
