"""Trained policies and bonuses from run folders."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mmrs.envs.base import Step, TrainingEnvs
from mmrs.ppo.policy import Policy
from mmrs.rewards import IntrinsicReward, Memory
from mmrs.rollout import Rollout
from mmrs.runs.build import build_bonus
from mmrs.runs.config import TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.storage import checkpoint as store


def load_policy(run: RunFolder, envs: TrainingEnvs, seed: int = 0) -> tuple[Policy, TrainConfig, int]:
    """The newest policy of a run, the run's configuration and the step the policy was saved at."""
    config = run.read_config(TrainConfig)
    step, tree = store.load(run.checkpoints)
    return Policy(envs.observation_space, envs.action_space, tree["trainer"], seed), config, step


def rollout_of(policy: Policy, seen: list[Any], actions: list[Any], steps: list[Step]) -> Rollout:
    """What the policy saw and did, as the bonus of training would be given it."""
    finals = [step.final_obs for step in steps if len(step.final_obs)]
    return Rollout(
        obs=torch.stack([policy.inputs(obs) for obs in seen]),
        actions=np.stack(actions),
        terminated=np.stack([step.terminated for step in steps]),
        truncated=np.stack([step.truncated for step in steps]),
        final_obs=policy.inputs(np.concatenate(finals)) if finals else None,
    )


def load_bonus(
    settings: TrainConfig, envs: TrainingEnvs, state: dict[str, Any], longer: int = 1
) -> tuple[IntrinsicReward | None, Memory | None]:
    """The bonus as it stood, and the memory to start with: scales as they were, episodes fresh.

    Args:
        settings: of the run.
        envs: of the run's kind.
        state: of the trainer.
        longer: times the run's length over which learning rates fall: at 1 a bonus learns nothing more at the end.
    """
    updates = -(-settings.steps // (settings.num_steps * settings.env.num_envs))
    bonus = build_bonus(settings.bonus, envs, updates * longer, settings.seed)
    if bonus is None:
        return None, None
    bonus.load_state_dict(state["bonus"])
    fresh, other = (bonus.initial_memory(count, torch.device("cpu")) for count in (envs.num_envs, envs.num_envs + 1))
    return bonus, _shared(state["memory"], fresh, other) if state["memory"] else fresh


def _shared(trained: Memory, fresh: Memory, other: Memory) -> Memory:
    """Entries whose shape depends on the number of environments are of episodes, and start afresh."""
    memory: Memory = {}
    for name, value in fresh.items():
        if isinstance(value, dict):
            memory[name] = _shared(trained[name], value, other[name])
        else:
            memory[name] = trained[name] if value.shape == other[name].shape else value
    return memory
