"""Probes a trained bonus: its values for the trained policy, and for standing still."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from mmrs.functional.clustering import kmeans
from mmrs.ppo.policy import Policy
from mmrs.rewards import IntrinsicReward, Memory, Scaled, Weighted
from mmrs.rollout import Rollout
from mmrs.runs.build import build_envs
from mmrs.runs.config import TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.load import fitting, load_bonus, load_checkpoint
from mmrs.runs.play import play, to_rollout
from mmrs.runs.threads import set_num_threads
from mmrs.spaces import ObservationSpec

CODES = 64
"""Number of clusters that replace states where there are too many states to count."""
PROJECTION = 32
"""Size of the random projection of larger observations."""
STILL_UPDATES = 16
"""Updates in which the bonus learns from standing still before it is evaluated there."""


@dataclass(frozen=True)
class Probe:
    """A trained bonus on R successive rollouts of the run's shape."""

    bonus: Tensor
    """``[R*T, N]`` bonus of each step, before scale, centering and weight."""
    done: Tensor
    """``[R*T, N]`` bool: the episode ended with the step."""
    state: Tensor
    """``[R*T, N]`` index of the state before a step, or of its cluster."""
    next_state: Tensor
    """``[R*T, N]`` index of the true successor."""
    visits: Tensor
    """``[R*T, N]`` earlier visits of `next_state` in the same episode."""
    moving: float
    """Mean bonus of the last rollout, after the bonus has learned from standing still."""
    still: float
    """Mean bonus of as many steps in one state, after the same."""


def probe(run: RunFolder, steps: int, seed: int) -> Probe | None:
    """Play at least `steps` steps with the newest checkpoint and evaluate its bonus; None without a bonus."""
    config = run.read_config(TrainConfig)
    _, tree = load_checkpoint(run)
    set_num_threads(config.threads)
    with closing(build_envs(replace(config.env, vectorization="sync"))) as envs:
        with fitting(run):
            policy = Policy(envs.observation_space, envs.action_space, tree["trainer"], seed)
            wrapped, memory = load_bonus(config, envs, tree["trainer"], longer=2)
        if wrapped is None:
            return None
        bonus, memory = _unwrapped(wrapped, memory)
        count = max(2, -(-steps // (config.num_steps * envs.num_envs)))
        transitions = play(policy, envs, seed)
        rollouts = [to_rollout(policy, list(islice(transitions, config.num_steps))) for _ in range(count)]
    return _evaluate(bonus, memory, rollouts)


def _unwrapped(bonus: IntrinsicReward, memory: Memory | None) -> tuple[IntrinsicReward, Memory | None]:
    """The reward inside its scale and weight: these change its size, and centering would hide what it rewards."""
    while isinstance(bonus, Scaled | Weighted):
        bonus, memory = bonus.reward, memory["reward"] if memory else None
    return bonus, memory


def _evaluate(bonus: IntrinsicReward, memory: Memory | None, rollouts: list[Rollout]) -> Probe:
    values, start = [], memory
    for rollout in rollouts:
        value, memory = bonus.compute(rollout, memory)
        values.append(value)
    done = torch.cat([rollout.done for rollout in rollouts])
    state, next_state = _state_codes(bonus.observation_spec, rollouts)
    moving, still = _stand_still(bonus, start, rollouts[-1])
    visits = earlier_visits(next_state, done)
    return Probe(torch.cat(values).double(), done, state, next_state, visits, moving, still)


def _stand_still(bonus: IntrinsicReward, memory: Memory | None, rollout: Rollout) -> tuple[float, float]:
    """Mean bonus of moving and of staying in one state, once the bonus knows that state."""
    still = frozen(rollout)
    for _ in range(STILL_UPDATES):
        bonus.update(still)
    return tuple(float(bonus.compute(r, memory)[0].double().mean()) for r in (rollout, still))  # type: ignore[return-value]


def frozen(rollout: Rollout) -> Rollout:
    """As many steps in which each environment stays in its state of half-way and no episode ends."""
    middle = rollout.obs[rollout.num_steps // 2]
    never = torch.zeros_like(rollout.terminated)
    first = rollout.actions[:1].expand_as(rollout.actions)
    obs = middle.unsqueeze(0).expand(rollout.num_steps + 1, *middle.shape)
    return Rollout(obs=obs.clone(), actions=first.clone(), terminated=never, truncated=never, final_obs=None)


# --- states that can be counted ---------------------------------------------------------------------------------------


def _state_codes(spec: ObservationSpec, rollouts: list[Rollout]) -> tuple[Tensor, Tensor]:
    """Indices of the states before and after each step: states of a Discrete space, else their clusters."""
    if spec.kind == "discrete":
        pairs = [rollout.map_pairs(spec.indices) for rollout in rollouts]
        return torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])
    draw = torch.Generator().manual_seed(0)
    size = spec.size if spec.kind == "vector" else spec.features(rollouts[0].obs[0])[0].numel()
    project = torch.randn(size, min(size, PROJECTION), generator=draw) if size > PROJECTION else torch.eye(size)

    def small(states: Tensor) -> Tensor:
        return torch.cat([spec.features(part).flatten(1) @ project for part in states.split(256)])

    pairs = [rollout.map_pairs(small) for rollout in rollouts]
    both = torch.stack([torch.cat(side) for side in zip(*pairs, strict=True)])  # [2, R*T, N, d]
    points = both.flatten(0, 2)
    points = points / points.std(0).clamp_min(1e-6)
    labels = kmeans(points.unsqueeze(0), torch.ones(1, len(points), dtype=torch.bool), CODES, draw)
    return labels[0].view(both.shape[:3]).unbind()  # type: ignore[return-value]


def earlier_visits(codes: Tensor, done: Tensor) -> Tensor:
    """How often each code of ``[T, N]`` occurred before in the same environment and episode."""
    length, count = codes.shape
    ended = done.to(torch.int64)
    episode = ended.cumsum(0) - ended
    key = ((episode * count + torch.arange(count)) * (int(codes.max()) + 1) + codes).T.flatten()
    order = torch.argsort(key, stable=True)
    ordered = key[order]
    new = torch.cat([torch.ones(1, dtype=torch.bool), ordered[1:] != ordered[:-1]])
    index = torch.arange(len(key))
    first = torch.where(new, index, 0).cummax(0).values
    visits: Any = torch.empty_like(index)
    visits[order] = index - first
    return torch.as_tensor(visits).view(count, length).T
