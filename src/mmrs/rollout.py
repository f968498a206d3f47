"""`Rollout`: the transitions that a reward reads. It never holds the extrinsic reward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmrs.errors import InputError
from mmrs.segments import Segments, VisitSlots, pack

Array = Tensor | NDArray[np.generic]


@dataclass(frozen=True, eq=False, init=False)
class Rollout:
    """T steps of N environments, time first. NumPy arrays are accepted, without a copy where possible."""

    obs: Tensor
    """``[T+1, N, *obs]``: the state before each step, then the state after the last; uint8 stays uint8."""
    actions: Tensor
    """``[T, N, *act]``"""
    terminated: Tensor
    """``[T, N]`` bool: this step reached a terminal state."""
    truncated: Tensor
    """``[T, N]`` bool: this step was cut off, by a time limit say."""
    final_obs: Tensor
    """``[M, *obs]``: true last states of the M steps that ended an episode, in row-major order of `done`."""
    valid: Tensor
    """``[T, N]`` bool: False on padding and on the dummy steps of NEXT_STEP autoreset. Default: all valid. The content
    of such steps changes no result, but must be finite and within the spaces."""

    def __init__(
        self,
        *,
        obs: Array,
        actions: Array,
        terminated: Array,
        truncated: Array,
        final_obs: Array | None = None,
        valid: Array | None = None,
    ) -> None:
        """Check that the fields fit together. `final_obs` is needed only if an episode ended."""
        for name, value in {"obs": obs, "actions": actions, "terminated": terminated, "truncated": truncated}.items():
            object.__setattr__(self, name, _tensor(value, name))
        every = torch.ones_like(self.terminated, dtype=torch.bool)
        object.__setattr__(self, "valid", every if valid is None else _tensor(valid, "valid"))
        if valid is None:
            self.__dict__["any_valid"] = True  # known without a GPU sync
        self._check_steps()
        object.__setattr__(self, "final_obs", self.obs[0, :0] if final_obs is None else _tensor(final_obs, "final_obs"))
        self._check_final_obs()
        for name in ("obs", "actions", "final_obs"):
            _check_finite(getattr(self, name), name)

    @classmethod
    def unchecked(cls, **tensors: Tensor) -> Rollout:
        """A rollout without checks, from a tensor for every field; `final_obs` may have more rows than needed."""
        rollout = cls.__new__(cls)
        rollout.__dict__.update(tensors)
        return rollout

    def _check_steps(self) -> None:
        if self.obs.ndim < 2 or self.obs.shape[0] < 2 or self.obs.shape[1] < 1:
            raise InputError(
                f"obs has shape {tuple(self.obs.shape)}, expected [T+1, N, ...] with at least one step and one "
                "environment: the state before each step, then the state after the last."
            )
        steps = (self.obs.shape[0] - 1, self.obs.shape[1])
        if self.actions.shape[:2] != steps:
            raise InputError(
                f"actions has shape {tuple(self.actions.shape)}, expected [T, N, ...] = {list(steps)} and the shape "
                f"of one action, since obs has T+1 = {steps[0] + 1} rows."
            )
        for name in ("terminated", "truncated", "valid"):
            flag: Tensor = getattr(self, name)
            if flag.shape != steps:
                raise InputError(f"{name} has shape {tuple(flag.shape)}, expected [T, N] = {list(steps)}.")
            if flag.dtype != torch.bool:
                raise InputError(f"{name} is {flag.dtype}, expected bool. Pass `{name}.astype(bool)`.")

    def _check_final_obs(self) -> None:
        ended = int(self.done.sum())
        if self.final_obs.shape != (ended, *self.obs.shape[2:]):
            raise InputError(
                f"final_obs has shape {tuple(self.final_obs.shape)}, expected [M, ...] = "
                f"{[ended, *self.obs.shape[2:]]}: one true last state for each of the {ended} steps that ended an "
                "episode, in the order of `(terminated | truncated) & valid` read row by row. With Gymnasium's "
                "SAME_STEP autoreset it is in info['final_obs']; mmrs.RolloutRecorder gathers it in every mode."
            )
        if self.final_obs.dtype != self.obs.dtype:
            raise InputError(f"final_obs is {self.final_obs.dtype}, expected {self.obs.dtype} as obs.")

    @property
    def num_steps(self) -> int:
        """T."""
        return self.obs.shape[0] - 1

    @property
    def num_envs(self) -> int:
        """N."""
        return self.obs.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.obs.device

    @cached_property
    def done(self) -> Tensor:
        """``[T, N]`` bool: valid steps that ended an episode."""
        return (self.terminated | self.truncated) & self.valid

    @cached_property
    def any_valid(self) -> bool:
        """Whether any step is valid."""
        return bool(self.valid.any())

    @cached_property
    def validated_for(self) -> set[object]:
        """Spaces this rollout was already checked against, so that a GPU is not synchronized twice."""
        return set()

    def precompute(self) -> Rollout:
        """Evaluate now the cached properties that need a GPU sync: later the GPU may be busy."""
        if self.obs.is_cuda:
            _ = self.next_state_index, self.visited_index
        return self

    def pad_states(self, multiple: int) -> Rollout:
        """The same rollout with unvisited rows after `final_obs`: the number of states is a multiple of `multiple`."""
        padding = -self.num_states % multiple
        # Copies of a real state: a network may not be able to read values outside the space.
        final_obs = torch.cat([self.final_obs, self.obs[0, :1].expand(padding, *self.obs.shape[2:])])
        return Rollout.unchecked(**{f.name: getattr(self, f.name) for f in fields(self)} | {"final_obs": final_obs})

    def to(self, device: torch.device | str) -> Rollout:
        """The same rollout on another device."""
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self)}
        return self if all(moved[f.name] is getattr(self, f.name) for f in fields(self)) else Rollout(**moved)

    # --- states and transitions -------------------------------------------------------------------------------------

    @property
    def num_states(self) -> int:
        """S: number of rows of `states`."""
        return (self.num_steps + 1) * self.num_envs + len(self.final_obs)

    @cached_property
    def states(self) -> Tensor:
        """Every state once, ``[S, *obs]``: all of `obs` row by row, then `final_obs`."""
        flat = self.obs.flatten(0, 1)
        return torch.cat([flat, self.final_obs]) if len(self.final_obs) else flat

    @cached_property
    def state_index(self) -> Tensor:
        """``[T, N]``: index of s_t in `states`."""
        return torch.arange(self.num_steps * self.num_envs, device=self.device).view(self.num_steps, self.num_envs)

    @cached_property
    def next_state_index(self) -> Tensor:
        """``[T, N]``: index of the true s_{t+1} in `states`; at the end of an episode, of its last state."""
        first_final = (self.num_steps + 1) * self.num_envs
        ended_by_then = self.done.flatten().cumsum(0).view_as(self.done)  # including this step
        return torch.where(self.done, first_final + ended_by_then - 1, self.state_index + self.num_envs)

    def map_pairs(self, f: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """``(f(s_t), f(s_{t+1}))``, each ``[T, N, ...]``; `f` runs once on ``[S, *obs]``, so once per state."""
        values = f(self.states)
        return values[self.state_index], values[self.next_state_index]

    @cached_property
    def visited(self) -> Tensor:
        """``[S]`` bool: states of a valid transition (not padding, nor a reset state without a step from it yet)."""
        mask = torch.zeros(self.num_states, dtype=torch.bool, device=self.device)
        mask[self.state_index] = self.valid
        mask[self.next_state_index] |= self.valid  # a state is the successor of one step at most
        return mask

    @cached_property
    def visited_index(self) -> Tensor:
        """Indices of the `visited` states in `states`."""
        return self.visited.nonzero().squeeze(1)

    # --- episodes ---------------------------------------------------------------------------------------------------

    def episode_starts(self, starts_episode: Tensor | None = None) -> Tensor:
        """``[T, N]`` bool: valid steps that begin an episode.

        Args:
            starts_episode: ``[N]`` bool, environments whose first step here begins an episode. Default: all of them.
        """
        first = torch.ones_like(self.done[0]) if starts_episode is None else starts_episode
        return torch.cat([first.unsqueeze(0), (self.done | ~self.valid)[:-1]]) & self.valid

    @property
    def next_starts_episode(self) -> Tensor:
        """``[N]`` bool: environments whose next step, in the next rollout, begins an episode."""
        return self.done[-1] | ~self.valid[-1]

    def visit_slots(self, starts_episode: Tensor | None = None) -> VisitSlots:
        """Visits in order, two slots per step: the start state if an episode starts there, then the successor."""
        starts = self.episode_starts(starts_episode)
        index = torch.stack([self.state_index, self.next_state_index], 1).flatten(0, 1).T  # [N, 2T]
        counted = torch.stack([starts, self.valid], 1).flatten(0, 1).T
        episode = torch.stack([starts, torch.zeros_like(starts)], 1).flatten(0, 1).T
        return VisitSlots(index.contiguous(), counted.contiguous(), episode.to(torch.int64).cumsum(1))

    def segments(self, by: Literal["rollout", "episode"] = "rollout") -> Segments:
        """The visited states as padded rows: one row per environment, or one per episode (its part in this rollout)."""
        slots = self.visit_slots()
        rows = torch.arange(self.num_envs, device=self.device).unsqueeze(1).expand_as(slots.index)
        if by == "episode":
            rows = rows * (2 * self.num_steps + 1) + slots.episode
        elif by != "rollout":
            raise InputError(f"segments(by={by!r}): expected 'rollout' or 'episode'.")
        return pack(slots, rows, self.valid)


def _tensor(value: Array, name: str) -> Tensor:
    if isinstance(value, Tensor):
        return value.detach()
    try:
        array = np.asarray(value)
    except ValueError:  # a list of lists of different lengths
        array = np.empty(0, object)
    if array.dtype == object:
        raise InputError(f"{name} is a ragged or object array; expected one dense array of numbers.")
    if array.dtype.kind not in "buif":
        raise InputError(f"{name} is {array.dtype}; expected bool, integers or floats.")
    usable = array.flags.writeable and array.dtype.isnative and all(stride >= 0 for stride in array.strides)
    return torch.as_tensor(array if usable else array.astype(array.dtype.newbyteorder("="), order="C"))


def _check_finite(values: Tensor, name: str) -> None:
    if values.is_floating_point() and not bool(torch.isfinite(values.sum())):
        bad = ~torch.isfinite(values)
        if bool(bad.any()):  # a finite rollout may still overflow its sum
            where = tuple(int(v) for v in bad.nonzero()[0])
            raise InputError(
                f"{name} holds {values[where].item()} at index {where}; expected finite numbers. "
                "Look for the environment step that produced it."
            )
