"""The contract of a reward: `compute` is pure, `update` learns, `causal` says whether step-by-step calls are right."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from mmrs.errors import InputError, NotCausalError
from mmrs.rewards.options import require_counts
from mmrs.rollout import Rollout
from mmrs.spaces import action_spec, observation_spec

Memory = dict[str, Any]
"""State of a reward between rollouts: tensors by name (or such dictionaries, for wrappers)."""
Terms = dict[str, Tensor]
"""Parts of a reward by name, each ``[T, N]``; the reward is their sum."""
Metrics = dict[str, Any]
"""What an update measured, by name: floats. With ``update(wait=False)`` on a GPU: scalar tensors, which no later update
overwrites, so they may be read after the next one has begun."""


class IntrinsicReward(nn.Module):
    """An exploration bonus, made from spaces and computed from rollouts.

    A host calls two methods. `compute` returns the bonus of each step and never changes the module. `update` learns
    from a rollout and is the only method that changes the module. Learned state is part of the module and its
    `state_dict()`, optimizer and generator included. State of running episodes, such as visit counts, is passed in and
    out as `memory`.

    A new reward implements `score`, and `learn` and `initial_memory` where it learns or keeps memory.
    """

    causal: bool = False
    """Whether the bonus of step t needs nothing later than step t. Only then may it be computed step by step."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], *, seed: int = 0) -> None:
        super().__init__()
        require_counts(type(self).__name__, minimum=0, seed=seed)
        self.observation_space, self.action_space = observation_space, action_space
        self.observation_spec = observation_spec(observation_space)
        self.action_spec = action_spec(action_space)
        self.generator = torch.Generator().manual_seed(seed)
        """Source of all randomness of the module, on the CPU: runs do not depend on the generator of the device."""
        self.optimizer: torch.optim.Optimizer | None = None
        self.updates = 0
        """Number of updates so far."""

    # --- what hosts call --------------------------------------------------------------------------------------------

    def compute(self, rollout: Rollout, memory: Memory | None = None) -> tuple[Tensor, Memory]:
        """The bonus of each step, ``[T, N]``, and the memory to pass with the next rollout.

        Args:
            rollout: transitions of the agents.
            memory: memory from the previous call; None: every episode starts with this rollout.
        """
        terms, memory = self.compute_terms(rollout, memory)
        return torch.stack(list(terms.values())).sum(0), memory

    @torch.no_grad()
    def compute_terms(self, rollout: Rollout, memory: Memory | None = None) -> tuple[Terms, Memory]:
        """As `compute`, with the terms of the bonus separate. They sum to it, and logs should show them."""
        self.check(rollout)
        template = self.initial_memory(rollout.num_envs, torch.device("meta"))
        if memory is None:
            memory = self.initial_memory(rollout.num_envs, rollout.device)
        else:
            _check_memory(memory, template, type(self).__name__, rollout.device)
        terms, memory = self.score(rollout, memory)
        return {name: torch.where(rollout.valid, term, 0.0) for name, term in terms.items()}, memory

    @torch.enable_grad()
    def update(self, rollout: Rollout, *, wait: bool = True) -> Metrics:
        """Learn from a rollout and return its metrics. The only method that changes the module.

        Args:
            rollout: transitions of the agents.
            wait: whether to wait for a GPU to finish. If not, the metrics are tensors that may not be computed yet.
        """
        self.check(rollout)
        if not rollout.any_valid:
            return {}
        metrics = self.learn(rollout)
        self.updates += 1
        return {name: float(value) for name, value in metrics.items()} if wait else metrics

    # --- what a reward implements -----------------------------------------------------------------------------------

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The terms of the bonus and the new memory. Must change neither the module nor the memory passed in."""
        raise NotImplementedError(f"{type(self).__name__} does not implement score().")

    def learn(self, rollout: Rollout) -> Metrics:  # noqa: ARG002 (rewards that only count have nothing to learn)
        """Train on a rollout with at least one valid step."""
        return {}

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:  # noqa: ARG002
        """Memory of environments whose episodes start now."""
        return {}

    # --- shared -----------------------------------------------------------------------------------------------------

    def check(self, rollout: Rollout) -> None:
        """Refuse a rollout that does not fit the spaces this reward was made for."""
        specs = (self.observation_spec, self.action_spec)
        if specs in rollout.validated_for:
            return
        self.observation_spec.check(rollout.obs, "obs")
        self.observation_spec.check(rollout.final_obs.unsqueeze(0), "final_obs")
        self.action_spec.check(rollout.actions)
        rollout.validated_for.add(specs)

    def train(self, mode: bool = True) -> IntrinsicReward:  # noqa: ARG002
        """Has no effect: `compute` always evaluates and `update` always trains."""
        return super().train(False)

    def get_extra_state(self) -> dict[str, Any]:
        """What `state_dict()` holds besides weights and buffers."""
        optimizer = self.optimizer.state_dict() if self.optimizer else {}
        return {"generator": self.generator.get_state(), "updates": self.updates, "optimizer": optimizer}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore what `get_extra_state` returned."""
        self.generator.set_state(state["generator"].cpu())
        self.updates = int(state["updates"])
        if self.optimizer:
            # A copy: torch optimizers keep the tensors they are given, and two modules must not share moments.
            self.optimizer.load_state_dict(deepcopy(state["optimizer"]))

    def _apply(self, fn: Any, recurse: bool = True) -> IntrinsicReward:
        """Move the optimizer state with the weights: `bonus.to(device)` moves everything."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for moments in self.optimizer.state.values() if self.optimizer else ():
            for name, value in moments.items():
                moments[name] = fn(value) if isinstance(value, Tensor) else value
        return self


def require_causal(reward: IntrinsicReward, host: str) -> None:
    """Refuse a reward that needs the whole rollout, for a host that works step by step."""
    if not reward.causal:
        raise NotCausalError(
            f"{type(reward).__name__} is not causal: its bonus of a step depends on later steps of the rollout, so "
            f"{host}, which calls it step by step, would get other values than the method defines. Use a causal reward "
            "(jfi, landmarks, ride or rnd, for example), or a host that collects rollouts, such as PPO."
        )


def _check_memory(memory: Memory, template: Memory, owner: str, device: torch.device) -> None:
    """Refuse memory of another reward, of another number of environments or on another device."""
    found = sorted(memory) if isinstance(memory, dict) else type(memory).__name__
    if found != sorted(template):
        raise InputError(
            f"memory holds {found}, but {owner} keeps {sorted(template)}. Pass what compute() of the same "
            "reward returned, or None to start anew."
        )
    for name, value in template.items():
        given = memory[name]
        if isinstance(value, dict):
            _check_memory(given, value, f"{owner}'s {name!r}", device)
        elif not isinstance(given, Tensor) or given.dtype != value.dtype:
            kind = given.dtype if isinstance(given, Tensor) else type(given).__name__
            raise InputError(
                f"memory[{name!r}] is {kind}, expected a tensor of {value.dtype} as compute() returned it."
            )
        elif given.shape != value.shape:
            raise InputError(
                f"memory[{name!r}] has shape {tuple(given.shape)}, expected {tuple(value.shape)} for this "
                "number of environments. Keep one memory per set of environments."
            )
        elif given.device != device:
            raise InputError(
                f"memory[{name!r}] is on {given.device}, but the rollout is on {device}. Move one of them."
            )
