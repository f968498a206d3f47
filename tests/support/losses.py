"""A loss of a user's own, and a batch from which PPO learns something."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.nets.actor_critic import ActorCritic
from mmrs.ppo.ppo import Batch, Metrics, PPOConfig, ppo_loss


def with_kl_penalty(network: ActorCritic, batch: Batch, config: PPOConfig) -> tuple[Tensor, Metrics]:
    """PPO's loss and a penalty on the KL divergence from the policy that acted."""
    loss, metrics = ppo_loss(network, batch, config)
    penalty = 100.0 * metrics["kl"]
    return loss + penalty, {**metrics, "kl_penalty": penalty}


@torch.no_grad()
def learnable_batch(network: ActorCritic, device: torch.device, size: int = 256) -> Batch:
    """Random transitions in which action 0 is always an advantage."""
    obs = torch.randn(size, 4, generator=torch.Generator().manual_seed(0)).to(device)
    parameters, values = network(obs)
    actions = torch.arange(size, device=device).remainder(3).unsqueeze(1)
    log_prob, _ = network.log_prob(parameters, actions)
    advantages = torch.where(actions[:, 0] == 0, 1.0, -0.5)
    return Batch(obs, actions, log_prob, values, values + 1.0, advantages)
