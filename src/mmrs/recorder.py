"""`RolloutRecorder`: steps of a vector environment as a `Rollout`, for all three autoreset modes of Gymnasium."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mmrs.errors import InputError
from mmrs.rollout import Rollout

Values = NDArray[Any]


class RolloutRecorder:
    """Collects steps of a vector environment and returns them as rollouts.

    The autoreset modes differ in where the true last state of an episode is found:

    - SAME_STEP: the step that ends an episode returns the next episode's first state; the true last one is in
      ``info["final_obs"]``.
    - NEXT_STEP (Gymnasium's default): it returns the true last state, and the following step ignores its action and
      resets. That dummy step is recorded with ``valid = False``.
    - DISABLED: it returns the true last state and waits; call `reset` with the mask of what was reset. Steps taken
      from an environment that was not reset are recorded with ``valid = False``.

    Example:
        >>> recorder = RolloutRecorder(envs.metadata["autoreset_mode"])
        >>> recorder.reset(envs.reset(seed=0)[0])
        >>> for _ in range(128):
        ...     actions = policy(recorder.obs)
        ...     obs, reward, terminated, truncated, info = envs.step(actions)
        ...     recorder.add(actions, obs, terminated, truncated, info)
        >>> rollout = recorder.rollout()
    """

    def __init__(self, autoreset_mode: AutoresetMode | str) -> None:
        text = getattr(autoreset_mode, "value", autoreset_mode)
        try:
            self.mode = AutoresetMode.__members__.get(str(text)) or AutoresetMode(text)
        except ValueError:
            modes = [mode.value for mode in AutoresetMode]
            raise InputError(
                f"autoreset mode {autoreset_mode!r} is unknown, expected one of {modes}; "
                "a vector environment has it in envs.metadata['autoreset_mode']."
            ) from None
        self._obs: list[Values] = []
        self._awaiting_reset: Values = np.zeros(0, bool)
        self._clear()

    def _clear(self) -> None:
        self._actions: list[Values] = []
        self._terminated: list[Values] = []
        self._truncated: list[Values] = []
        self._valid: list[Values] = []
        self._final_obs: list[Values] = []

    @property
    def obs(self) -> Values:
        """Current observations, ``[N, *obs]``."""
        if not self._obs:
            raise InputError("nothing recorded yet: call reset(obs) with what envs.reset() returned first.")
        return self._obs[-1]

    def reset(self, obs: Values, mask: Values | None = None) -> None:
        """Set the states that ``envs.reset`` returned: of all environments, or of those in `mask`.

        Args:
            obs: ``[N, *obs]``.
            mask: ``[N]`` bool, the environments that were reset; None: all. A reset of all drops the steps recorded
                since the last rollout. The memory of a reward then no longer fits: pass ``memory=None`` next.
        """
        obs = np.array(obs)
        if mask is None:
            self._clear()
            self._obs = [obs]
            self._awaiting_reset = np.zeros(len(obs), bool)
            return
        mask, current = np.asarray(mask, bool), self.obs
        if obs.shape != current.shape or mask.shape != current.shape[:1]:
            raise InputError(
                f"reset got obs of shape {obs.shape} and a mask of shape {mask.shape}, expected {current.shape} "
                f"and {current.shape[:1]}: all environments, with those that were reset marked."
            )
        mid_episode = mask & ~self._awaiting_reset
        if mid_episode.any():
            raise InputError(
                f"environments {np.flatnonzero(mid_episode).tolist()} were reset in the middle of an episode; "
                "their last step must be truncated first, or the reset would look like a transition."
            )
        self._obs[-1] = np.where(_broadcast_mask(mask, obs), obs, current)
        self._awaiting_reset = self._awaiting_reset & ~mask

    def add(
        self, actions: Values, obs: Values, terminated: Values, truncated: Values, info: dict[str, Any] | None = None
    ) -> None:
        """Record one vector step: the actions taken at `self.obs`, and what ``envs.step`` returned for them."""
        before = self.obs
        obs = np.array(obs)
        if obs.shape != before.shape:
            raise InputError(f"obs has shape {obs.shape}, expected {before.shape} as at the reset.")
        for name, given in (("actions", actions), ("terminated", terminated), ("truncated", truncated)):
            shape = np.shape(given)
            if not shape or shape[0] != len(before) or (name != "actions" and len(shape) > 1):
                raise InputError(f"{name} has shape {shape}, expected one for each of the {len(before)} environments.")
        valid = ~self._awaiting_reset
        terminated, truncated = np.array(terminated, bool) & valid, np.array(truncated, bool) & valid
        done = terminated | truncated
        if done.any():
            self._final_obs.append(self._last_states(obs, done, info or {}))
        if self.mode is AutoresetMode.NEXT_STEP:
            self._awaiting_reset = done  # the next step is the dummy step
        elif self.mode is AutoresetMode.DISABLED:
            self._awaiting_reset = self._awaiting_reset | done
        self._obs.append(obs)
        self._actions.append(np.array(actions))
        self._terminated.append(terminated)
        self._truncated.append(truncated)
        self._valid.append(valid)

    def _last_states(self, obs: Values, done: Values, info: dict[str, Any]) -> Values:
        if self.mode is not AutoresetMode.SAME_STEP:
            return np.asarray(obs[done])
        if "final_obs" not in info:
            raise InputError(
                f"environments {np.flatnonzero(done).tolist()} ended an episode, but info holds no 'final_obs'. Pass "
                "the info of envs.step; without the true last state the successor would be the next episode's first."
            )
        final = info["final_obs"]
        return np.stack([final[i] for i in np.flatnonzero(done)]).astype(obs.dtype, copy=False)

    def rollout(self) -> Rollout:
        """The steps since the last call, as a rollout; recording continues from the current state."""
        if not self._actions:
            raise InputError("no steps recorded since the last rollout: call add(...) after each envs.step.")
        obs = np.stack(self._obs)
        rollout = Rollout(
            obs=obs,
            actions=np.stack(self._actions),
            terminated=np.stack(self._terminated),
            truncated=np.stack(self._truncated),
            final_obs=np.concatenate(self._final_obs) if self._final_obs else None,
            valid=np.stack(self._valid),
        )
        self._clear()
        self._obs = [obs[-1]]
        return rollout


def _broadcast_mask(mask: Values, like: Values) -> Values:
    """A mask ``[N]`` shaped to select rows of ``[N, *obs]``."""
    return mask.reshape(-1, *[1] * (like.ndim - 1))
