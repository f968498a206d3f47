"""PPO in one file, in the style of CleanRL, on Gymnasium 1.x. Three marked lines make it explore.

python examples/ppo_single_file.py --reward mmrs --weight 0.1
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from torch import nn
from torch.distributions import Categorical

import mmrs


def parse() -> argparse.Namespace:
    """Options, with small defaults that run in seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1", help="any environment with vector observations")
    parser.add_argument("--reward", default="mmrs")
    parser.add_argument("--weight", type=float, default=0.1)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--lam", type=float, default=0.95)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Agent(nn.Module):
    """Two small networks: the policy and the value."""

    def __init__(self, size: int, actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, actions))
        self.critic = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def value(self, obs: torch.Tensor) -> torch.Tensor:
        """V(s)."""
        return self.critic(obs).squeeze(-1)


def main() -> None:
    """Collect, add the bonus, compute returns, update."""
    args = parse()
    torch.manual_seed(args.seed)
    same_step = {"autoreset_mode": AutoresetMode.SAME_STEP}
    envs = gym.make_vec(args.env, num_envs=args.num_envs, vectorization_mode="sync", vector_kwargs=same_step)
    envs = RecordEpisodeStatistics(envs)
    agent = Agent(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), 3e-4, eps=1e-5)

    bonus = mmrs.make(args.reward, envs.single_observation_space, envs.single_action_space)  # (1) the reward
    memory = None
    recorder = mmrs.RolloutRecorder(envs.metadata["autoreset_mode"])  # keeps the true last states of episodes
    recorder.reset(envs.reset(seed=args.seed)[0])

    for iteration in range(args.iterations):
        rewards, log_probs, scores = [], [], []
        for _ in range(args.num_steps):
            with torch.no_grad():
                choice = Categorical(logits=agent.actor(torch.as_tensor(recorder.obs)))
                action = choice.sample()
            obs, reward, terminated, truncated, info = envs.step(action.numpy())
            recorder.add(action.numpy(), obs, terminated, truncated, info)
            rewards.append(torch.as_tensor(reward, dtype=torch.float32))
            log_probs.append(choice.log_prob(action))
            scores += info["episode"]["r"][info["_episode"]].tolist() if "episode" in info else []
        rollout = recorder.rollout()

        extrinsic = torch.stack(rewards)
        intrinsic, memory = bonus.compute(rollout, memory)  # (2) added before the returns are computed
        reward = extrinsic + args.weight * intrinsic.float()

        with torch.no_grad():
            value, next_value = rollout.map_pairs(agent.value)  # V of the true successor, not of the reset
        advantage, running = torch.zeros_like(reward), torch.zeros(args.num_envs)
        for t in reversed(range(args.num_steps)):
            error = reward[t] + args.gamma * next_value[t] * ~rollout.terminated[t] - value[t]
            running = error + args.gamma * args.lam * ~rollout.done[t] * running
            advantage[t] = running
        update(agent, optimizer, args, rollout, torch.stack(log_probs), advantage, advantage + value)

        bonus.update(rollout)  # (3) trained last, on the same rollout
        score = sum(scores) / max(1, len(scores))
        print(
            f"iteration {iteration}: bonus {intrinsic.abs().mean():.4f} per step, {len(scores)} episodes of {score:.1f}"
        )
    envs.close()


def update(
    agent: Agent,
    optimizer: torch.optim.Optimizer,
    args: argparse.Namespace,
    rollout: mmrs.Rollout,
    log_probs: torch.Tensor,
    advantage: torch.Tensor,
    returns: torch.Tensor,
) -> None:
    """PPO's clipped objective over shuffled minibatches."""
    obs, actions = rollout.obs[:-1].flatten(0, 1), rollout.actions.flatten(0, 1)
    old, advantage, returns = log_probs.flatten(), advantage.flatten(), returns.flatten()
    for _ in range(args.epochs):
        for index in torch.randperm(len(obs)).split(len(obs) // 4):
            choice = Categorical(logits=agent.actor(obs[index]))
            ratio = (choice.log_prob(actions[index]) - old[index]).exp()
            scaled = (advantage[index] - advantage[index].mean()) / (advantage[index].std() + 1e-8)
            clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
            policy_loss = -torch.min(ratio * scaled, clipped * scaled).mean()
            value_loss = 0.5 * (agent.value(obs[index]) - returns[index]).square().mean()
            loss = policy_loss + 0.5 * value_loss - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


if __name__ == "__main__":
    main()
