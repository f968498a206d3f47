"""The observations of a Stable-Baselines3 model that a bonus sees: normalized or original ones, one Dict entry."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mmrs.errors import InputError, UnsupportedSpaceError

Values = NDArray[Any]


class ObsRecorder:
    """Records the observations of one rollout, including the true last states."""

    space: spaces.Space[Any]
    """Space of what the bonus sees."""

    def __init__(self, which: Literal["policy", "original"], key: str | None) -> None:
        if which not in ("policy", "original"):
            raise InputError(f"observations={which!r}: expected 'policy' or 'original'.")
        self.which, self.key = which, key
        self.model: Any = None
        self._normalize: Any = None
        self._original: list[Values] = []
        self._final: list[Values] = []

    def attach(self, model: Any) -> None:
        """Find out where the model's observations come from."""
        self.model = model
        normalize = model.get_vec_normalize_env()
        # With norm_obs=False the policy already sees the original observations.
        wanted = self.which == "original" and normalize is not None and normalize.norm_obs
        self._normalize = normalize if wanted else None
        if wanted and _shapes(normalize.observation_space) != _shapes(model.observation_space):
            raise InputError(
                f"observations='original' under VecNormalize, but another wrapper above it turns observations of shape "
                f"{_shapes(normalize.observation_space)} into {_shapes(model.observation_space)}, so the original of "
                "an episode's last state is unknown. Put that wrapper (VecFrameStack, say) below VecNormalize, or "
                "pass observations='policy'."
            )
        # The original observations are those below VecNormalize, whose own space describes the normalized ones.
        space = model.observation_space if self._normalize is None else self._normalize.venv.observation_space
        self.space = self._entry_space(space)

    def _entry_space(self, space: spaces.Space[Any]) -> spaces.Space[Any]:
        if not isinstance(space, spaces.Dict):
            if self.key is not None:
                raise InputError(f"obs_key={self.key!r}, but the observations are {type(space).__name__}, not a Dict.")
            return space
        if self.key not in space.spaces:
            raise UnsupportedSpaceError(
                f"the observations are a Dict with the entries {sorted(space.spaces)}, and obs_key is {self.key!r}. "
                "Pass obs_key= one of them: a bonus sees one entry."
            )
        return space.spaces[self.key]

    def pick(self, obs: Any) -> Values:
        """The entry that the bonus sees."""
        return np.asarray(obs if self.key is None else obs[self.key])

    # --- one rollout ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a rollout at the current state."""
        self._final = []
        self._original = [] if self._normalize is None else [self.pick(self._normalize.get_original_obs())]

    def step(self) -> None:
        """Record the state after a step."""
        if self._normalize is not None:
            self._original.append(self.pick(self._normalize.get_original_obs()))

    def ended(self, env: int, info: dict[str, Any]) -> Any:
        """Record the true last state of an episode; returns it as the policy would see it."""
        if info.get("terminal_observation") is None:
            raise InputError(
                f"environment {env} ended an episode, but its info holds no 'terminal_observation'. The vector "
                "environments of Stable-Baselines3 put it there; a custom one must too, or the bonus of the last step "
                "would be that of the next episode's first state."
            )
        last = info["terminal_observation"]
        original = last
        if self._normalize is not None:
            # VecNormalize keeps no original here. Undoing it is exact up to rounding, unless the value was clipped.
            original = self._normalize.unnormalize_obs(last)
        value = self.pick(original)
        if np.issubdtype(self.space.dtype, np.integer) and not np.issubdtype(value.dtype, np.integer):
            value = np.rint(value)
        self._final.append(value.astype(self.space.dtype))
        return last

    def observations(self) -> Values:
        """``[T+1, N, *obs]``: the states before each step, then the state after the last."""
        if self._normalize is not None:
            return np.stack(self._original).astype(self.space.dtype, copy=False)
        stored = self.model.rollout_buffer.observations
        stored = stored if self.key is None else stored[self.key]
        shape = stored.shape[:2] + tuple(self.space.shape or ())  # Discrete states have an axis of 1 in the buffer
        last = self.pick(self.model._last_obs).reshape(1, shape[1], *shape[2:])
        return np.concatenate([stored.reshape(shape), last.astype(stored.dtype, copy=False)])

    def final_observations(self) -> Values | None:
        """``[M, *obs]``: true last states in the order their episodes ended."""
        return np.stack(self._final) if self._final else None


def _shapes(space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: entry.shape for name, entry in space.spaces.items()}
    return space.shape
