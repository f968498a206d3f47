"""What every host needs: a reward, its weight and its memory in one place, to pay, to train, to save."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from mmrs.errors import InputError
from mmrs.rewards import IntrinsicReward, Memory, make
from mmrs.rollout import Rollout
from mmrs.spaces import ObservationSpec, action_spec, observation_spec

RewardSource = IntrinsicReward | str | Callable[[spaces.Space[Any], spaces.Space[Any]], IntrinsicReward]
"""A reward, a name of the registry, or a function from (observation space, action space) to a reward."""


def build_reward(
    source: RewardSource, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
) -> IntrinsicReward:
    """The reward for these spaces, made now or checked if it was made before."""
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
    seen, wanted = reward.observation_spec, observation_spec(observation_space)
    if seen != wanted or reward.action_spec != action_spec(action_space):
        raise InputError(
            f"the reward was made for observations {_words(seen)} and actions {reward.action_space}, but the host has "
            f"{_words(wanted)} and {action_space}. Hosts may change spaces (Stable-Baselines3 puts channels first): "
            "pass the reward's name, or a function of the spaces, and it is made from the right ones."
        )
    return reward


def _words(spec: ObservationSpec) -> str:
    return f"{spec.kind} {spec.shape} of {spec.dtype}"


class HostedReward:
    """A reward with its weight and the memory of the environments it is paid in."""

    def __init__(self, reward: IntrinsicReward, weight: float) -> None:
        if not isinstance(weight, (int, float, np.number)) or not np.isfinite(weight):
            raise InputError(f"weight is {weight!r}, expected a finite number.")
        self.reward, self.weight = reward, float(weight)
        self.memory: Memory | None = None
        self.running = np.zeros(0, bool)
        """``[N]`` bool: environments whose episode goes on after the last rollout."""

    @property
    def device(self) -> torch.device:
        """Where the reward's tensors live."""
        tensors = [*self.reward.parameters(), *self.reward.buffers()]
        return tensors[0].device if tensors else torch.device("cpu")

    def pay(self, rollout: Rollout) -> tuple[NDArray[np.float32], dict[str, float]]:
        """Weighted bonus ``[T, N]`` and what to log of it; memory moves on past the rollout."""
        rollout = rollout.to(self.device)
        terms, self.memory = self.reward.compute_terms(rollout, self.memory)
        self.running = (~rollout.fresh_after).cpu().numpy()
        bonus = self.weight * torch.stack(list(terms.values())).sum(0)
        return bonus.float().cpu().numpy(), self._summary(bonus, terms, rollout.valid)

    def _summary(self, bonus: Tensor, terms: dict[str, Tensor], valid: Tensor) -> dict[str, float]:
        weighted = {f"term/{name}": self.weight * term for name, term in terms.items()}
        names = ["bonus", *weighted]
        count = valid.sum().clamp_min(1)
        means = torch.stack([values.double().sum() for values in (bonus, *weighted.values())]) / count
        return dict(zip(names, means.tolist(), strict=True))

    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Train the reward; what it measured."""
        return self.reward.update(rollout.to(self.device))

    def restart(self) -> None:
        """All environments were reset: what is remembered of the running episodes ends here."""
        if self.memory is None or not self.running.any():
            return
        # A step that is not valid is what a reset looks like; every reward forgets the episode there, and only that.
        _, self.memory = self.reward.compute(self._dummy_step(len(self.running)), self.memory)
        self.running = np.zeros_like(self.running)

    def _dummy_step(self, num_envs: int) -> Rollout:
        seen, acted = self.reward.observation_spec, self.reward.action_spec
        action = torch.tensor(acted.starts or (0.0,) * acted.size).reshape(acted.shape)
        never = torch.zeros(1, num_envs, dtype=torch.bool)
        rollout = Rollout(
            obs=torch.full((2, num_envs, *seen.shape), seen.start, dtype=seen.dtype),
            actions=action.expand(1, num_envs, *acted.shape),
            terminated=never,
            truncated=never,
            valid=never,
        )
        return rollout.to(self.device)

    # --- saving -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Everything that continuing needs: module, optimiser, generator, memory."""
        running = torch.from_numpy(self.running.copy())
        return {"reward": self.reward.state_dict(), "memory": self.memory, "running": running, "weight": self.weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave, the weight included."""
        if not isinstance(state, dict) or {"reward", "memory", "running", "weight"} - state.keys():
            raise InputError("this is not the state of a bonus: expected what the same adapter saved.")
        try:
            self.reward.load_state_dict(state["reward"])
        except (RuntimeError, ValueError, KeyError) as error:
            raise InputError(
                f"the saved bonus does not fit this {type(self.reward).__name__}: it was saved by another reward, or "
                f"by one with other options or spaces. Make the reward as it was made then. ({error})"
            ) from error
        self.memory, self.weight = _moved(state["memory"], self.device), float(state["weight"])
        self.running = state["running"].numpy().copy()


def write_state(state: dict[str, Any], path: str | Path) -> None:
    """Write a state to a file, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    torch.save(state, unfinished)
    unfinished.replace(path)


def read_state(path: str | Path) -> dict[str, Any]:
    """Read what `write_state` wrote; the file may hold tensors and plain values, never code."""
    if not Path(path).is_file():
        raise InputError(f"{path} does not exist; expected a file written by save().")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, UnpicklingError, EOFError) as error:
        # torch's own message advises reading the file without this protection; nobody should.
        raise InputError(
            f"{path} cannot be read: it is damaged, holds more than tensors and plain values, or was not written by "
            "save(). Is it the model's own file?"
        ) from error
    if not isinstance(state, dict) or "bonus" not in state:
        raise InputError(f"{path} holds no bonus; expected a file written by save(). Is it the model's own file?")
    return state


def _moved(memory: Any, device: torch.device) -> Any:
    if isinstance(memory, dict):
        return {name: _moved(value, device) for name, value in memory.items()}
    return memory.to(device) if isinstance(memory, Tensor) else memory
