"""Trained policies from run folders."""

from __future__ import annotations

from mmrs.agents.policy import Policy
from mmrs.envs.training import TrainingEnvs
from mmrs.experiments import store
from mmrs.experiments.config import TrainConfig
from mmrs.experiments.run_folder import RunFolder


def load_policy(run: RunFolder, envs: TrainingEnvs, seed: int = 0) -> tuple[Policy, TrainConfig, int]:
    """The newest policy of a run, the run's configuration and the step the policy was saved at."""
    config = run.read_config(TrainConfig)
    step, tree = store.load(run.checkpoints)
    return Policy(envs.observation_space, envs.action_space, tree["trainer"], seed), config, step
