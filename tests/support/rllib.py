"""RLlib's learner on given episodes. Importing this needs Ray."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from tests.support.adapter_worlds import line

ray.tune.registry.register_env("line", lambda config: line())


def ppo() -> PPOConfig:
    return (
        PPOConfig()
        .environment("line")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .training(train_batch_size_per_learner=128, minibatch_size=32, num_epochs=2, lambda_=0.8, gamma=0.9, lr=1e-2)
        .rl_module(model_config={"fcnet_hiddens": [16]})
        .debugging(seed=3, log_level="ERROR")
    )


def walks(count: int = 12, steps: int = 9, constant: float = 0.0) -> list[SingleAgentEpisode]:
    """Random walks as an env runner returns them: ended, or cut at the end of the fragment."""
    rng, episodes, env = np.random.default_rng(0), [], line()
    for number in range(count):
        episode = SingleAgentEpisode(id_=f"e{number}", observation_space=env.observation_space)
        episode.add_env_reset(env.reset()[0])
        for _ in range(int(rng.integers(2, steps))):
            action = int(rng.integers(0, 2))
            obs, _, terminated, truncated, _ = env.step(action)
            extra = {"action_logp": np.float32(-0.7), "action_dist_inputs": np.zeros(2, np.float32)}
            episode.add_env_step(
                obs, action, constant, terminated=terminated, truncated=truncated, extra_model_outputs=extra
            )
            if terminated or truncated:
                break
        episodes.append(episode)
    return [episode.to_numpy() for episode in episodes]


def learner(config: PPOConfig) -> Any:
    torch.manual_seed(0)
    return config.build_learner(env=line())


def same_state(left: Any, right: Any) -> bool:
    flat = torch.utils._pytree.tree_leaves
    one, other = (flat([b.reward_host.reward.state_dict(), b.memory.state_dict()]) for b in (left, right))
    return len(one) == len(other) and all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, other, strict=True)
    )
