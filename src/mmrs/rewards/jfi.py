"""JFI: the change of Jain's fairness index of state visits, for Discrete observations (Sec. 4)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from gymnasium import spaces

from mmrs.errors import UnsupportedSpaceError
from mmrs.functional.fairness import gain
from mmrs.rewards.base import IntrinsicReward, Memory, Terms
from mmrs.rewards.options import require_choice, require_finite, require_flags
from mmrs.rewards.visits import Scope, count_visits, initial_counts
from mmrs.rollout import Rollout


class JFI(IntrinsicReward):
    """``lambda_g * (gamma_g J(t+1) - J(t))`` of exact visit counts, in float64."""

    causal = True

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        lambda_g: float = 0.1,
        gamma_g: float = 1.0,
        scope: Scope = "episode",
        count_start: bool = True,
        terminal_potential: Literal["literal", "zero"] = "literal",
        seed: int = 0,
    ) -> None:
        """Args:
        observation_space: Discrete.
        action_space: any supported space.
        lambda_g: weight. # Unstated: the paper gives none for the maze; above the step cost of 0.1/S the bonus of
            new states is so large that the agent walks the same way again.
        gamma_g: discount inside the gain. # Deviation: Eq. (11) reuses the learner's discount; below 1 it adds a cost
            that grows with J and loses to plain Q-learning from 20x20 mazes up.
        scope: "episode": counts start at 0 in each episode (Definition 2); "lifelong": never.
        count_start: whether the start state is a visit, as in Eq. (12).
        terminal_potential: "literal" keeps J at a terminal state; "zero" sets it to 0, as shaping that must not change
            the best policy demands. # Unstated: the paper is silent.
        seed: unused; every reward has this argument.
        """
        super().__init__(observation_space, action_space, seed=seed)
        require_states(self, "jfi")
        require_finite("jfi", lambda_g=lambda_g, gamma_g=gamma_g)
        require_choice("jfi", ("episode", "lifelong"), scope=scope)
        require_flags("jfi", count_start=count_start)
        require_choice("jfi", ("literal", "zero"), terminal_potential=terminal_potential)
        self.lambda_g, self.gamma_g, self.scope = lambda_g, gamma_g, scope
        self.count_start, self.terminal_potential = count_start, terminal_potential

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The weighted gain of each step."""
        before, after = rollout.map_pairs(self.observation_spec.indices)
        visits, memory = count_visits(rollout, before, after, memory, scope=self.scope, count_start=self.count_start)
        j_before, j_after = visits.jain_index(self.observation_spec.size)
        if self.terminal_potential == "zero":
            j_after = torch.where(rollout.terminated, 0.0, j_after)
        return {"global": self.lambda_g * gain(j_before, j_after, self.gamma_g)}, memory  # Eq. (11)

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """No visits."""
        return initial_counts(num_envs, self.observation_spec.size, device)


def require_states(reward: IntrinsicReward, name: str) -> None:
    """Refuse spaces whose states cannot be counted one by one."""
    if reward.observation_spec.kind != "discrete":
        raise UnsupportedSpaceError(
            f"{name} counts the states of a Discrete observation space, and this one is a "
            f"{reward.observation_spec.kind} space. Use 'mmrs', which clusters images and vectors first."
        )
