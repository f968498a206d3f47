"""A plain PPO loop in the style of single-file implementations: eager torch, distribution objects, no bonus.

The baseline for the trainer: same network, hyperparameters and environments, but no CUDA graphs and no overlap.
"""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Normal

from mmrs.envs.base import ResumableVectorEnv
from mmrs.nets.actor_critic import ActorCritic
from mmrs.ppo.ppo import PPOConfig
from mmrs.spaces import action_spec, observation_spec


class EagerPPO:
    """Collects and learns, one rollout per call."""

    def __init__(self, envs: ResumableVectorEnv, device: str, num_steps: int = 128) -> None:
        self.envs, self.device, self.num_steps = envs, torch.device(device), num_steps
        self.spec, self.action = observation_spec(envs.observation_space), action_spec(envs.action_space)
        self.network = ActorCritic(self.spec, self.action).to(self.device)
        self.config = PPOConfig()
        self.optimizer = torch.optim.Adam(self.network.parameters(), 2.5e-4, eps=1e-5)
        self.obs = torch.as_tensor(envs.reset(0)).to(self.device)
        self.done = torch.zeros(envs.num_envs, device=self.device)

    def _evaluate(self, obs: torch.Tensor, action: torch.Tensor | None = None):
        parameters, value = self.network(obs)
        if self.action.nvec:
            distribution = Categorical(logits=parameters)
            action = distribution.sample() if action is None else action
            return action, distribution.log_prob(action), distribution.entropy(), value.squeeze(-1)
        distribution = Normal(parameters, self.network.log_std.exp().expand_as(parameters))
        action = distribution.sample() if action is None else action
        return action, distribution.log_prob(action).sum(-1), distribution.entropy().sum(-1), value.squeeze(-1)

    def iterate(self) -> None:
        """One rollout and one update."""
        steps, count = self.num_steps, self.envs.num_envs
        obs = torch.zeros((steps, count, *self.spec.shape), dtype=self.obs.dtype, device=self.device)
        rewards, dones, values, log_probs = torch.zeros((4, steps, count), device=self.device)
        actions = []
        for t in range(steps):
            obs[t], dones[t] = self.obs, self.done
            with torch.no_grad():
                action, log_probs[t], _, values[t] = self._evaluate(self.obs)
            actions.append(action)
            step = self.envs.step(action.cpu().numpy())
            rewards[t] = torch.tensor(np.sign(step.reward)).to(self.device)
            self.obs = torch.as_tensor(step.obs).to(self.device)
            self.done = torch.tensor(step.terminated | step.truncated, dtype=torch.float32).to(self.device)
        self._learn(obs, torch.stack(actions), rewards, dones, values, log_probs)

    def _learn(self, obs, actions, rewards, dones, values, log_probs) -> None:
        config = self.config
        with torch.no_grad():
            next_value = self._evaluate(self.obs)[3]
            advantages, last = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
            for t in reversed(range(self.num_steps)):
                alive = 1.0 - (self.done if t == self.num_steps - 1 else dones[t + 1])
                following = next_value if t == self.num_steps - 1 else values[t + 1]
                error = rewards[t] + config.gamma * following * alive - values[t]
                advantages[t] = last = error + config.gamma * config.gae_lambda * alive * last
        returns = (advantages + values).flatten()
        advantages, obs, actions = advantages.flatten(), obs.flatten(0, 1), actions.flatten(0, 1)
        log_probs, values = log_probs.flatten(), values.flatten()
        for _ in range(config.epochs):
            order = np.random.default_rng().permutation(len(returns))
            for index in np.array_split(order, config.minibatches):
                _, log_prob, entropy, value = self._evaluate(obs[index], actions[index])
                ratio = (log_prob - log_probs[index]).exp()
                advantage = advantages[index]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
                policy = torch.max(-advantage * ratio, -advantage * clipped).mean()
                near = values[index] + (value - values[index]).clamp(-config.clip, config.clip)
                error = torch.max((value - returns[index]) ** 2, (near - returns[index]) ** 2)
                loss = policy + 0.25 * error.mean() - config.entropy_weight * entropy.mean()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), 0.5)
                self.optimizer.step()
