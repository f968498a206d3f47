"""JFI: the change of Jain's fairness index of state visits, for Discrete observations (Sec. 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from gymnasium import spaces

from mmrs.errors import UnsupportedSpaceError
from mmrs.fields import FINITE
from mmrs.functional.fairness import gain
from mmrs.rewards.base import IntrinsicReward, Memory, Terms
from mmrs.rewards.options import configured
from mmrs.rewards.visits import Scope, count_visits, initial_counts
from mmrs.rollout import Rollout


@dataclass(frozen=True)
class JFIConfig:
    """Options of JFI."""

    # Unstated: the paper gives no weight for the maze; above the step cost of 0.1/S the bonus of new states is so large
    # that the agent walks the same way again.
    lambda_g: Annotated[float, FINITE] = 0.1
    """Weight."""
    # Deviation: Eq. (11) reuses the learner's discount; below 1 it adds a cost that grows with J and loses to plain
    # Q-learning from 20x20 mazes up.
    gamma_g: Annotated[float, FINITE] = 1.0
    """Discount inside the gain."""
    scope: Scope = "episode"
    """"episode": counts start at 0 in each episode (Definition 2); "lifelong": never."""
    count_start: bool = True
    """Whether the start state is a visit, as in Eq. (12)."""
    # Unstated: the paper is silent on terminal states.
    terminal_potential: Literal["literal", "zero"] = "literal"
    """J at a terminal state is kept ("literal"), or 0, as shaping that must not change the best policy demands."""


class JFI(IntrinsicReward):
    """``lambda_g * (gamma_g J(t+1) - J(t))`` of exact visit counts, in float64."""

    causal = True

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        config: JFIConfig | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Args:
        observation_space: Discrete.
        action_space: any supported space.
        config: the options; None: the defaults.
        seed: unused; every reward has this argument.
        **options: fields of `JFIConfig` to replace.
        """
        super().__init__(observation_space, action_space, seed=seed)
        require_states(self, "jfi")
        self.config = configured("jfi", JFIConfig, config, options)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The weighted gain of each step."""
        before, after = rollout.map_pairs(self.observation_spec.indices)
        visits, memory = count_visits(
            rollout, before, after, memory, scope=self.config.scope, count_start=self.config.count_start
        )
        j_before, j_after = visits.jain_index(self.observation_spec.size)
        if self.config.terminal_potential == "zero":
            j_after = torch.where(rollout.terminated, 0.0, j_after)
        return {"global": self.config.lambda_g * gain(j_before, j_after, self.config.gamma_g)}, memory  # Eq. (11)

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """No visits."""
        return initial_counts(num_envs, self.observation_spec.size, device)


def require_states(reward: IntrinsicReward, name: str) -> None:
    """Refuse spaces whose states cannot be counted one by one."""
    if reward.observation_spec.kind != "discrete":
        raise UnsupportedSpaceError(
            f"{name} counts the states of a Discrete observation space, and the observations here are "
            f"{reward.observation_spec.kind}s. Use 'mmrs', which clusters images and vectors first."
        )
