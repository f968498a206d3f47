"""The peer's rewards, run as its own trainer runs them: `rllte-core` 1.0.1.

Its pinned dependencies (old matplotlib, seaborn, huggingface-hub) conflict with ours, and its reward modules use none
of them. So it is installed without dependencies into a folder of its own, which this module appends to `sys.path`:

    pip install --no-deps --target .peers/rllte rllte-core==1.0.1 termcolor==2.5.0 pynvml==11.5.0

`termcolor` and `pynvml` are needed because the package's `__init__` files import its logger and its agents before the
rewards. Nothing is stubbed, patched or copied: the peer's published code is timed on our torch, numpy and gymnasium.

One pass over a rollout does the work of the peer's on-policy trainer: `watch` at every step, then `compute(sync=True)`,
which itself calls `update` (RE3 has nothing to update). RE3 and RIDE fill their memories in `watch`, so it is part of
the work; RND's `watch` is empty. The constructors step a live environment 2,560 times, which is not timed.
"""

import importlib
import sys
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from mmrs import Rollout

FOLDER = Path(__file__).resolve().parent.parent / ".peers" / "rllte"
INSTALL = "pip install --no-deps --target .peers/rllte rllte-core==1.0.1 termcolor==2.5.0 pynvml==11.5.0"
NAMES = {"re3": "RE3", "ride": "RIDE", "rnd": "RND"}
"""Our names of the rewards that the peer has too, with the peer's names."""


class MissingPeerError(RuntimeError):
    """The peer is not installed."""


def version() -> str:
    """The installed version of the peer."""
    for distribution in distributions(path=[str(FOLDER)]):
        if distribution.metadata["Name"] == "rllte-core":
            return distribution.version
    raise MissingPeerError(f"the peer is not installed in {FOLDER}; install it with: {INSTALL}")


class SampledEnvs(VectorEnv[Any, Any, Any]):
    """A vector environment whose observations are drawn from those of a rollout, as torch tensors.

    The peer reads the spaces and its first observation statistics from it, and does not use it afterwards.
    """

    def __init__(self, rollout: Rollout, observation_space: gym.Space[Any], action_space: gym.Space[Any]) -> None:
        self.num_envs = rollout.obs.shape[1]
        self.single_observation_space = observation_space
        self.single_action_space = action_space
        self.observation_space = batch_space(observation_space, self.num_envs)
        self.action_space = batch_space(action_space, self.num_envs)
        self._obs = rollout.obs.cpu()
        self._rng = np.random.default_rng(0)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[torch.Tensor, dict[str, Any]]:  # noqa: ARG002
        return self._obs[0], {}

    def step(self, actions: Any) -> tuple[torch.Tensor, Any, Any, Any, dict[str, Any]]:  # noqa: ARG002
        nothing = np.zeros(self.num_envs)
        return self._obs[self._rng.integers(len(self._obs))], nothing, nothing > 0, nothing > 0, {}


class Peer:
    """One reward of the peer on one rollout, ready to be timed."""

    def __init__(
        self,
        name: str,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        rollout: Rollout,
        device: str,
        **options: Any,
    ) -> None:
        version()
        if str(FOLDER) not in sys.path:
            sys.path.append(str(FOLDER))
        rewards = importlib.import_module("rllte.xplore.reward")
        envs = SampledEnvs(rollout, observation_space, action_space)
        self.reward = getattr(rewards, NAMES[name])(envs, device=device, **options)
        # Its own storage holds every field as float32, so the conversion is not part of the measured time.
        fields = {
            "observations": rollout.obs[:-1],
            "actions": rollout.actions.reshape(*rollout.actions.shape[:2], -1),
            "rewards": torch.zeros(rollout.actions.shape[:2]),
            "terminateds": rollout.terminated,
            "truncateds": rollout.truncated,
            "next_observations": rollout.obs[1:],
        }
        self.samples = {key: value.to(device, torch.float32).contiguous() for key, value in fields.items()}

    def watch(self) -> None:
        """The peer's work on a rollout while steps are being collected."""
        for step in zip(*self.samples.values(), strict=True):
            self.reward.watch(*step)

    def compute_and_update(self) -> torch.Tensor:
        """The peer's work after the rollout: [T, N] rewards, its networks trained once over the rollout."""
        return self.reward.compute(self.samples, sync=True)  # type: ignore[no-any-return]

    def __call__(self) -> torch.Tensor:
        """All the work of one rollout."""
        self.watch()
        return self.compute_and_update()
