"""From single transitions, as replay buffers hold them, to rollouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmrs.rewards import IntrinsicReward
from mmrs.rollout import Array, Rollout

Values = NDArray[Any]
FIELDS = ("obs", "next_obs", "actions", "terminated", "truncated")


def transitions(obs: Array, next_obs: Array, actions: Array, terminated: Array, truncated: Array) -> Rollout:
    """B transitions of B environments as a rollout of one step; `next_obs` holds the true successors."""
    done = torch.as_tensor(terminated) | torch.as_tensor(truncated)
    rows = [torch.as_tensor(value) for value in (obs, next_obs)]
    return Rollout(
        obs=torch.stack(rows),
        actions=actions[None],
        terminated=terminated[None],
        truncated=truncated[None],
        final_obs=rows[1][done],
    )


class TransitionLog:
    """Vector steps in order, until they are taken as one rollout."""

    def __init__(self) -> None:
        self._rows: list[tuple[Values, ...]] = []
        self._reached: Values | None = None
        self._ended: Values = np.zeros(0, bool)

    def __len__(self) -> int:
        """Steps held, summed over environments."""
        return sum(len(row[0]) for row in self._rows)

    def follows(self, obs: Values) -> bool:
        """Whether `obs` goes on where the last step led, in every environment whose episode goes on."""
        if self._reached is None:
            return True
        return bool((_same(obs, self._reached) | self._ended).all())

    def add(self, obs: Values, next_obs: Values, actions: Values, terminated: Values, truncated: Values) -> None:
        """Note one step of N environments."""
        row = tuple(np.array(value) for value in (obs, next_obs, actions, terminated, truncated))
        self._rows.append(row)
        self._reached, self._ended = row[1], row[3] | row[4]

    def take(self) -> Rollout:
        """The steps so far as a rollout; the log starts again."""
        obs, next_obs, actions, terminated, truncated = (np.stack(column) for column in zip(*self._rows, strict=True))
        self._rows = []
        # Where the next step starts elsewhere the environment was reset from outside: no transition leads there.
        truncated[:-1] |= ~terminated[:-1] & ~_same(obs[1:], next_obs[:-1], 2)
        return Rollout(
            obs=np.concatenate([obs, next_obs[-1:]]),
            actions=actions,
            terminated=terminated,
            truncated=truncated,
            final_obs=next_obs[terminated | truncated],
        )

    def state_dict(self) -> dict[str, Any]:
        """The steps held, and where the last one led."""
        rows = [dict(zip(FIELDS, map(torch.from_numpy, row), strict=True)) for row in self._rows]
        reached = None if self._reached is None else torch.from_numpy(self._reached)
        return {"rows": rows, "reached": reached, "ended": torch.from_numpy(self._ended)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave."""
        self._rows = [tuple(row[name].numpy() for name in FIELDS) for row in state["rows"]]
        self._reached = None if state["reached"] is None else state["reached"].numpy()
        self._ended = state["ended"].numpy()


def _same(left: Values, right: Values, axes: int = 1) -> Values:
    """Whether observations are equal, over all but the first `axes` axes."""
    return np.asarray((left == right).reshape(*left.shape[:axes], -1).all(-1))


def remembers(reward: IntrinsicReward) -> bool:
    """Whether the reward carries anything from step to step."""
    return _holds_tensor(reward.initial_memory(1, torch.device("meta")))


def _holds_tensor(memory: Any) -> bool:
    if isinstance(memory, dict):
        return any(_holds_tensor(value) for value in memory.values())
    return isinstance(memory, Tensor)
