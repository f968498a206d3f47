"""What all adapters share: a reward with its weight and memory, and the file that its state is saved in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._pytree import tree_map_only

from mmrs.errors import InputError, StorageError
from mmrs.rewards import IntrinsicReward, Memory, make
from mmrs.rollout import Rollout
from mmrs.spaces import ObservationSpec, action_spec, observation_spec
from mmrs.storage import state_file

RewardSource = IntrinsicReward | str | Callable[[spaces.Space[Any], spaces.Space[Any]], IntrinsicReward]
"""A reward, its registered name, or a function from (observation space, action space) to a reward."""


def build_reward(
    source: RewardSource, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> IntrinsicReward:
    """Make the reward for these spaces, or check that a given one was made for them."""
    if isinstance(source, str):
        return make(source, observation_space, action_space)
    reward: Any = source
    if callable(source) and not isinstance(source, IntrinsicReward):
        reward = source(observation_space, action_space)
    if not isinstance(reward, IntrinsicReward):
        raise InputError(
            f"the bonus is a {type(reward).__name__}, expected an mmrs reward, a name such as 'rnd', or a function "
            "that makes a reward from (observation_space, action_space)."
        )
    spec, host_spec = reward.observation_spec, observation_spec(observation_space)
    if spec != host_spec or reward.action_spec != action_spec(action_space):
        raise InputError(
            f"the reward was made for observations {_describe(spec)} and actions {reward.action_space}, but the host "
            f"has {_describe(host_spec)} and {action_space}. Hosts may change spaces (Stable-Baselines3 puts channels "
            "first): pass the reward's name, or a function of the spaces, and it is made from the right ones."
        )
    return reward


def _describe(spec: ObservationSpec) -> str:
    return f"{spec.kind} {spec.shape} of {spec.dtype}"


class RewardHost:
    """A reward with its weight and its memory of the host's environments."""

    def __init__(self, reward: IntrinsicReward, weight: float) -> None:
        if not isinstance(weight, (int, float, np.number)) or not np.isfinite(weight):
            raise InputError(f"weight is {weight!r}, expected a finite number.")
        self.reward, self.weight = reward, float(weight)
        self.memory: Memory | None = None
        self.running = np.zeros(0, bool)
        """``[N]`` bool: environments whose episode continues after the last rollout."""

    @property
    def device(self) -> torch.device:
        """Device of the reward's tensors."""
        tensors = [*self.reward.parameters(), *self.reward.buffers()]
        return tensors[0].device if tensors else torch.device("cpu")

    def compute(self, rollout: Rollout) -> tuple[NDArray[np.float32], dict[str, float]]:
        """Weighted bonus ``[T, N]`` and its metrics; the memory advances past the rollout."""
        rollout = rollout.to(self.device)
        terms, self.memory = self.reward.compute_terms(rollout, self.memory)
        self.running = (~rollout.next_starts_episode).cpu().numpy()
        bonus = self.weight * torch.stack(list(terms.values())).sum(0)
        return bonus.float().cpu().numpy(), self._summary(bonus, terms, rollout.valid)

    def _summary(self, bonus: Tensor, terms: dict[str, Tensor], valid: Tensor) -> dict[str, float]:
        weighted = {f"term/{name}": self.weight * term for name, term in terms.items()}
        names = ["bonus", *weighted]
        count = valid.sum().clamp_min(1)
        means = torch.stack([values.double().sum() for values in (bonus, *weighted.values())]) / count
        return dict(zip(names, means.tolist(), strict=True))

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Train the reward; returns its metrics."""
        return self.reward.update(rollout.to(self.device))

    def reset_episodes(self) -> None:
        """Forget the running episodes, because all environments were reset."""
        if self.memory is None or not self.running.any():
            return
        # An invalid step marks a reset: every reward forgets the episode there, and nothing else.
        _, self.memory = self.reward.compute(self._dummy_step(len(self.running)), self.memory)
        self.running = np.zeros_like(self.running)

    def _dummy_step(self, num_envs: int) -> Rollout:
        obs_spec, act_spec = self.reward.observation_spec, self.reward.action_spec
        action = torch.tensor(act_spec.starts or (0.0,) * act_spec.size).reshape(act_spec.shape)
        false = torch.zeros(1, num_envs, dtype=torch.bool)
        rollout = Rollout(
            obs=torch.full((2, num_envs, *obs_spec.shape), obs_spec.start, dtype=obs_spec.dtype),
            actions=action.expand(1, num_envs, *act_spec.shape),
            terminated=false,
            truncated=false,
            valid=false,
        )
        return rollout.to(self.device)

    # --- saving -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to continue: module, optimizer, generator, memory."""
        running = torch.from_numpy(self.running.copy())
        return {"reward": self.reward.state_dict(), "memory": self.memory, "running": running, "weight": self.weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, the weight included."""
        if not isinstance(state, dict) or {"reward", "memory", "running", "weight"} - state.keys():
            raise InputError("this is not the state of a bonus: expected what the same adapter saved.")
        try:
            self.reward.load_state_dict(state["reward"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise InputError(
                f"the saved bonus does not fit this {type(self.reward).__name__}: it was saved by another reward, or "
                f"by one with other options or spaces. Make the reward as it was made then. ({error})"
            ) from error
        self.memory, self.weight = to_device(state["memory"], self.device), float(state["weight"])
        self.running = state["running"].numpy().copy()


def write_state(state: dict[str, Any], path: str | Path) -> None:
    """Write a state to a file, completely or not at all."""
    state_file.save(Path(path), state)


def read_state(path: str | Path) -> dict[str, Any]:
    """Read what `write_state` wrote. Such a file cannot hold code."""
    if not Path(path).is_file():
        raise InputError(f"{path} does not exist; expected a file written by save().")
    try:
        state = state_file.load(Path(path))
    except StorageError as error:
        raise InputError(
            f"{path} cannot be read: {error} Expected a file written by save(), and not the model's own. Use another "
            "copy of it; a file of an older version has to be saved anew, from a bonus trained with this version."
        ) from error
    if "bonus" not in state:
        raise InputError(f"{path} holds no bonus; expected a file written by save(). Is it the model's own file?")
    return state


def to_device(memory: Any, device: torch.device) -> Any:
    """The memory with its tensors on a device."""
    return tree_map_only(Tensor, lambda tensor: tensor.to(device), memory)
