"""The compiled room worlds as a Gymnasium VectorEnv: the same as N copies of `RoomsEnv`, many times faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from mmrs.envs.base import Values
from mmrs.envs.rooms import kernel, layout
from mmrs.envs.rooms.env import observation_space
from mmrs.envs.rooms.layout import parts, width
from mmrs.envs.rooms.maps import CELLS, reachable, world_named
from mmrs.envs.rooms.render import draw
from mmrs.errors import InputError

_MODES = {
    AutoresetMode.NEXT_STEP: kernel.NEXT_STEP,
    AutoresetMode.SAME_STEP: kernel.SAME_STEP,
    AutoresetMode.DISABLED: kernel.DISABLED,
}


class RoomsVectorEnv(VectorEnv[Any, Any, Any]):
    """N room worlds. Seeds, maps, observations and infos are those of N `RoomsEnv` in a `SyncVectorEnv`.

    Args:
        world: `KeyRooms`, `MultiRooms` or `NoisyTV`.
        num_envs: N.
        obs_type: `features` or `image`.
        autoreset_mode: any of Gymnasium's three.
        render_mode: `rgb_array`.
    """

    def __init__(
        self,
        world: str = "KeyRooms",
        num_envs: int = 1,
        obs_type: str = "features",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        if num_envs < 1:
            raise InputError(f"num_envs is {num_envs}, expected at least 1.")
        self.world, self.num_envs, self.obs_type, self.render_mode = world_named(world), num_envs, obs_type, render_mode
        mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 15, "autoreset_mode": mode}
        self.single_observation_space = observation_space(self.world, obs_type)
        self.single_action_space = spaces.Discrete(len(self.world.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.rows: Values = np.zeros((num_envs, width(self.world)), np.int64)
        """``[N, W]``: the whole state of the environments; see `layout`."""
        self._state, self._grid, self._stamps, self.visits = parts(self.rows)
        self._world_flags = (self.world.procedural, self.world.noise, obs_type == "image")
        self._mode = _MODES[mode]
        self._shape = (num_envs, *self.single_observation_space.shape)
        self._dtype = self.single_observation_space.dtype
        self._flat = (num_envs, int(np.prod(self._shape[1:])))
        self._last = np.zeros(self._flat, self._dtype)
        self._every_env = np.ones(num_envs, bool)
        self._begun = np.zeros(num_envs, bool)
        self._ready = False
        in_one_episode, self._reachable_ever = reachable(self.world)
        self._reachable = np.full(num_envs, in_one_episode)

    # --- Gymnasium --------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Values, dict[str, Any]]:
        """Start an episode everywhere, or where ``options["reset_mask"]`` ``[N]`` says; environment i gets seed + i."""
        mask = self._mask(options)
        seeds: Sequence[int | None] = [None] * self.num_envs if seed is None else seed  # type: ignore[assignment]
        if isinstance(seed, int | np.integer):
            seeds = range(int(seed), int(seed) + self.num_envs)
        if len(seeds) != self.num_envs:
            raise InputError(f"there are {len(seeds)} seeds for {self.num_envs} environments; give one for each.")
        for i in np.flatnonzero(mask).tolist():
            number = seeds[i]
            if number is not None or not self._begun[i]:
                self._forget(i, int(seeding.np_random(number)[0].integers(1 << 63)))
        self._begun |= mask
        self._ready = bool(self._begun.all())
        obs = np.empty(self._flat, self._dtype)
        kernel.reset(*self._world_flags, self.rows, mask, obs)
        states, visited = (self._state[:, column].copy() for column in (layout.STATES, layout.VISITED))
        return obs.reshape(self._shape), self._info(np.zeros(self.num_envs, bool), states, visited, mask)

    def step(self, actions: Values) -> tuple[Values, Values, Values, Values, dict[str, Any]]:
        """Step every environment."""
        obs, last, flags, stats, ended = self.advance(actions)
        terminated, truncated = flags
        reward = terminated.astype(np.float64)
        if not ended or self._mode != kernel.SAME_STEP:
            return obs, reward, terminated, truncated, self._info(terminated, stats[0, 0], stats[0, 1], self._every_env)
        done = terminated | truncated
        info = self._info(terminated & ~done, stats[0, 0], stats[0, 1], self._every_env)
        final = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(done).tolist():
            final[i] = last[i].copy()
        info |= {"final_obs": final, "_final_obs": done.copy(), "_final_info": done.copy()}
        info["final_info"] = self._info(terminated & done, stats[1, 0], stats[1, 1], done)
        return obs, reward, terminated, truncated, info

    def render(self) -> tuple[Any, ...] | None:
        """Pictures ``[H, W, 3]`` of all environments."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(self.picture(i) for i in range(self.num_envs))

    # --- arrays instead of infos ------------------------------------------------------------------------------------

    def advance(self, actions: Values) -> tuple[Values, Values, Values, Values, int]:
        """One step: observations, last ones (which the next step overwrites), flags, statistics, number of ends.

        See `kernel.step` for their shapes.
        """
        actions = np.asarray(actions)
        if actions.shape != self._every_env.shape or actions.dtype.kind not in "iu":
            raise InputError(
                f"actions are {actions.dtype} of shape {actions.shape}, expected whole numbers of shape "
                f"({self.num_envs},): one for each environment."
            )
        if not self._ready:
            raise InputError("Call reset() before the first step.")
        obs, flags = np.empty(self._flat, self._dtype), np.empty((2, self.num_envs), bool)
        stats = np.empty((2, 3, self.num_envs), np.int64)
        actions = np.ascontiguousarray(actions, np.int64)
        ended = kernel.step(*self._world_flags, self._mode, self.rows, actions, obs, self._last, flags, stats)
        if ended < 0:
            self._refuse(-1 - ended, actions)
        if self._world_flags[2]:
            return obs.reshape(self._shape), self._last.reshape(self._shape), flags, stats, ended
        return obs, self._last, flags, stats, ended

    def observe(self) -> Values:
        """Current observations of all environments, ``[N, *obs]``."""
        obs = np.empty(self._flat, self._dtype)
        kernel.reset(*self._world_flags, self.rows, ~self._every_env, obs)
        return obs.reshape(self._shape)

    def load(self, rows: Values) -> None:
        """Continue from the `rows` of environments made the same way."""
        if np.shape(rows) != self.rows.shape:
            raise InputError(f"the state has shape {np.shape(rows)}, these environments have {self.rows.shape}.")
        self.rows[:] = rows
        self._begun[:] = self._ready = True

    def picture(self, index: int) -> Values:
        """RGB picture ``[H, W, 3]`` of one environment."""
        state = self._state[index]
        seen = (self._stamps[index] == state[layout.EPISODE]).reshape(-1, CELLS).any(0)
        cell, phase, noise = (int(state[c]) for c in (layout.CELL, layout.PHASE, layout.NOISE))
        return draw(self.world, self._grid[index], cell, phase, seen, noise)

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _mask(self, options: dict[str, Any] | None) -> Values:
        mask = np.asarray((options or {}).get("reset_mask", self._every_env))
        if mask.shape != (self.num_envs,) or mask.dtype != bool:
            raise InputError(f"reset_mask is {mask.dtype} of shape {mask.shape}, expected bool ({self.num_envs},).")
        return mask

    def _forget(self, index: int, stream: int) -> None:
        self.rows[index] = 0
        self._state[index, layout.STREAM] = stream

    def _info(self, success: Values, states: Values, visited: Values, mask: Values) -> dict[str, Any]:
        """Each entry ``[N]`` with its mask, zero outside it. No array is one of the environment."""
        if mask is not self._every_env:
            states, visited = states * mask, visited * mask
        mask = mask.copy()
        return {
            "success": success, "_success": mask, "states": states, "_states": mask,
            "reachable": self._reachable * mask, "_reachable": mask,
            "visited": visited, "_visited": mask, "coverage": visited / self._reachable_ever, "_coverage": mask,
        }  # fmt: skip

    def _refuse(self, index: int, actions: Values) -> None:
        action, names = int(actions[index]), self.world.actions
        if 0 <= action < len(names):
            raise InputError(f"the episode of environment {index} is over: reset it first.")
        raise InputError(
            f"action {action} of environment {index} lies outside 0 to {len(names) - 1} ({', '.join(names)})."
        )
