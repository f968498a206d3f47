"""Trained policies and bonuses from run folders, those of earlier versions included."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from mmrs.envs.base import ResumableVectorEnv
from mmrs.errors import MmrsError, StorageError
from mmrs.ppo.policy import Policy
from mmrs.rewards import IntrinsicReward, Memory
from mmrs.runs.build import build_bonus, total_updates
from mmrs.runs.config import TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.upgrade import upgrade_state
from mmrs.storage import checkpoint as store


def load_checkpoint(run: RunFolder) -> tuple[int, dict[str, Any]]:
    """The newest checkpoint of a run that is whole: its step, and its content with the present names."""
    step, tree = store.load(run.checkpoints)
    with fitting(run):
        return step, upgrade_state(run.read_config(TrainConfig).bonus.name, tree)


@contextlib.contextmanager
def fitting(run: RunFolder) -> Iterator[None]:
    """Turn the errors of a checkpoint that does not fit this version into one with a remedy."""
    try:
        yield
    except MmrsError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise StorageError(
            f"the checkpoint of {run.path} does not fit this version of mmrs ({type(error).__name__}: {reason}). "
            "Use the version that wrote it (attempts.jsonl names it), or train the run again."
        ) from error


def load_policy(run: RunFolder, envs: ResumableVectorEnv, seed: int = 0) -> tuple[Policy, TrainConfig, int]:
    """The newest policy of a run, the configuration of the run, and the step at which the policy was saved."""
    config = run.read_config(TrainConfig)
    step, tree = load_checkpoint(run)
    with fitting(run):
        return Policy(envs.observation_space, envs.action_space, tree["trainer"], seed), config, step


def load_bonus(
    config: TrainConfig, envs: ResumableVectorEnv, state: dict[str, Any], longer: int = 1
) -> tuple[IntrinsicReward | None, Memory | None]:
    """The bonus as it was saved, and the memory to start with: scales as saved, episodes fresh.

    Args:
        config: configuration of the run.
        envs: environments of the run's kind.
        state: saved state of the trainer.
        longer: learning rates decay over this many times the length of the run. At 1 they are 0 at its end.
    """
    bonus = build_bonus(config.bonus, envs, total_updates(config) * longer, config.seed)
    if bonus is None:
        return None, None
    bonus.load_state_dict(state["bonus"])
    fresh, other = (bonus.initial_memory(count, torch.device("cpu")) for count in (envs.num_envs, envs.num_envs + 1))
    return bonus, _without_episodes(state["memory"], fresh, other) if state["memory"] else fresh


def _without_episodes(trained: Memory, fresh: Memory, other: Memory) -> Memory:
    """The saved memory, but fresh entries where the shape depends on the number of environments: those of episodes."""
    memory: Memory = {}
    for name, value in fresh.items():
        if isinstance(value, dict):
            memory[name] = _without_episodes(trained[name], value, other[name])
        else:
            memory[name] = trained[name] if value.shape == other[name].shape else value
    return memory
