"""A group of environments in a rollout: acting, stepping and writing down, each as soon as it can be done."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from mmrs.envs.base import Episodes, Step, TrainingEnvs
from mmrs.ppo.actor import Actor
from mmrs.ppo.policy import ForEnv, ObsNormaliser

Values = NDArray[Any]


class Written(NamedTuple):
    """What the host writes down of a rollout, ``[T, N]`` and ``[T, N, *act]``; filled anew by every rollout."""

    reward: Tensor
    """Raw extrinsic reward."""
    terminated: Tensor
    truncated: Tensor
    actions: Tensor
    """As the environments took them."""

    @classmethod
    def blank(cls, num_steps: int, num_envs: int, space: spaces.Space[Any], device: torch.device) -> Written:
        """Of environments with this action space; for a GPU pinned, so that no copy waits for its other work."""
        of_actions = np.result_type(np.float32, space.dtype) if isinstance(space, spaces.Box) else np.int64
        kinds = [((), np.float32), ((), np.bool_), ((), np.bool_), (space.shape or (), of_actions)]
        blank = (torch.from_numpy(np.zeros((num_steps, num_envs, *shape), kind)) for shape, kind in kinds)
        return cls(*(one.pin_memory() if device.type == "cuda" else one for one in blank))

    def on(self, device: torch.device) -> Written:
        """A copy on a device."""
        return Written(*(one.to(device, non_blocking=True, copy=True) for one in self))


class Group:
    """Environments that act and step together, and their columns of what a rollout writes down."""

    def __init__(self, envs: TrainingEnvs, actor: Actor, columns: Written, normaliser: ObsNormaliser | None) -> None:
        self.envs, self.actor, self.normaliser = envs, actor, normaliser
        self.for_env = ForEnv(actor.ppo.network.action, envs.action_space)
        self.obs: Values = np.zeros(0)
        self.num_steps = len(columns.reward)
        self._reward, self._terminated, self._truncated, self._actions = (one.numpy() for one in columns)
        # Where only waiting tells whether a step is done, whatever else is to be done has to be done before.
        self.apart = envs.ready() is not None
        self._acting = self._sent = False
        self.t = 0
        self.ended: list[tuple[int, Values, Episodes]] = []
        """The steps in which something ended, with the true last states and what it was."""

    def see(self, obs: Values) -> None:
        """What the environments show now."""
        self.obs = self.normaliser.see(obs) if self.normaliser else obs

    def begin(self, noise: Tensor) -> None:
        """Start a rollout: act on the observation that the last one left."""
        self.t, self._sent = 0, False  # a step that was cut off is for `send` to refuse
        self.ended.clear()
        self.actor.begin(noise)
        self._act()

    @property
    def finished(self) -> bool:
        """Whether all steps of the rollout are written down."""
        return self.t == self.num_steps

    def ready(self) -> bool:
        """Whether `advance` has something to do; where that cannot be told, it waits until it has."""
        return self.actor.ready() if self._acting else self.envs.ready() is not False

    def advance(self) -> None:
        """Step with the actions that are ready, or act on the observations that are."""
        if self._acting:
            self._step()
            return
        self.see(self.envs.wait())
        if self.t == self.num_steps - 1:
            self.actor.finish(self.obs)
            self._write(self.envs.recv())
            return
        self._act()
        if not self.apart:
            self._step()

    def _act(self) -> None:
        self.actor.start(self.obs)
        self._acting = True

    def _step(self) -> None:
        """Write down the step before, while a GPU may still be acting, and take the next."""
        if self._sent:
            self._write(self.envs.recv())
        self._actions[self.t] = action = self.for_env(self.actor.result())
        self.envs.send(action)
        self._acting, self._sent = False, True

    def _write(self, step: Step) -> None:
        t = self.t
        self._reward[t], self._terminated[t], self._truncated[t] = step.reward, step.terminated, step.truncated
        if len(step.final_obs):
            last = self.normaliser(step.final_obs) if self.normaliser else step.final_obs
            self.ended.append((t, last, step.episodes))
        self.t += 1
        self._sent = False
