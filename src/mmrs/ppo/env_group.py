"""A group of environments in a rollout: it acts, steps and stores each step as soon as that can be done."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from mmrs.envs.base import EnvStep, Episodes, ResumableVectorEnv
from mmrs.nets.normalization import ObsNormalizer
from mmrs.ppo.actor import Actor
from mmrs.ppo.policy import ActionDecoder

Values = NDArray[Any]


class StepBuffer(NamedTuple):
    """What the host stores of a rollout, ``[T, N]`` and ``[T, N, *act]``; every rollout overwrites it."""

    reward: Tensor
    """Raw extrinsic reward."""
    terminated: Tensor
    truncated: Tensor
    actions: Tensor
    """The actions as the environments received them."""

    @classmethod
    def allocate(cls, num_steps: int, num_envs: int, space: spaces.Space[Any], device: torch.device) -> StepBuffer:
        """Zeros for environments with this action space; pinned for a GPU, so that copies are asynchronous."""
        action_dtype = np.result_type(np.float32, space.dtype) if isinstance(space, spaces.Box) else np.int64
        columns = [((), np.float32), ((), np.bool_), ((), np.bool_), (space.shape or (), action_dtype)]
        zeros = (torch.from_numpy(np.zeros((num_steps, num_envs, *shape), dtype)) for shape, dtype in columns)
        return cls(*(one.pin_memory() if device.type == "cuda" else one for one in zeros))

    def to(self, device: torch.device) -> StepBuffer:
        """A copy on a device."""
        return StepBuffer(*(one.to(device, non_blocking=True, copy=True) for one in self))


class EnvGroup:
    """Environments that act and step together, with their columns of the step buffer."""

    def __init__(
        self, envs: ResumableVectorEnv, actor: Actor, columns: StepBuffer, normalizer: ObsNormalizer | None
    ) -> None:
        self.envs, self.actor, self.normalizer = envs, actor, normalizer
        self.decode_actions = ActionDecoder(actor.network.action, envs.action_space)
        self.obs: Values = np.zeros(0)
        self.num_steps = len(columns.reward)
        self._reward, self._terminated, self._truncated, self._actions = (one.numpy() for one in columns)
        # If a step cannot be polled, receiving it blocks: everything else must be done before that.
        self.pollable = envs.poll() is not None
        self._acting = self._sent = False
        self.t = 0
        self.ended: list[tuple[int, Values, Episodes]] = []
        """Per step with an end: its index, the true last states, and the episodes that ended."""

    def set_obs(self, obs: Values) -> None:
        """Set the current observation, normalized if a normalizer is used."""
        self.obs = self.normalizer.update(obs) if self.normalizer else obs

    def start_rollout(self, noise: Tensor) -> None:
        """Start a rollout: act on the current observation."""
        self.t, self._sent = 0, False  # `send` refuses to go on if a step was interrupted
        self.ended.clear()
        self.actor.start_rollout(noise)
        self._act()

    @property
    def finished(self) -> bool:
        """Whether all steps of the rollout are stored."""
        return self.t == self.num_steps

    def poll(self) -> bool:
        """Whether `advance` would not block; also True where this cannot be polled."""
        return self.actor.poll() if self._acting else self.envs.poll() is not False

    def advance(self) -> None:
        """Send the chosen actions to the environments, or act on the observations they returned."""
        if self._acting:
            self._step()
            return
        self.set_obs(self.envs.recv_obs())
        if self.t == self.num_steps - 1:
            self.actor.finish(self.obs)
            self._write(self.envs.recv())
            return
        self._act()
        if not self.pollable:
            self._step()

    def _act(self) -> None:
        self.actor.start(self.obs)
        self._acting = True

    def _step(self) -> None:
        """Store the step before, while the GPU may still be acting, and send the next."""
        if self._sent:
            self._write(self.envs.recv())
        self._actions[self.t] = action = self.decode_actions(self.actor.result())
        self.envs.send(action)
        self._acting, self._sent = False, True

    def _write(self, step: EnvStep) -> None:
        t = self.t
        self._reward[t], self._terminated[t], self._truncated[t] = step.reward, step.terminated, step.truncated
        if len(step.final_obs):
            last = self.normalizer(step.final_obs) if self.normalizer else step.final_obs
            self.ended.append((t, last, step.episodes))
        self.t += 1
        self._sent = False
