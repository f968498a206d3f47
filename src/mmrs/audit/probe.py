"""Putting a trained bonus to the test: what it pays the trained policy, and what it would pay for standing still."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mmrs.envs.base import Step, TrainingEnvs
from mmrs.functional.clustering import kmeans
from mmrs.ppo.policy import Policy
from mmrs.rewards import IntrinsicReward, Memory, Scaled, Weighted
from mmrs.rollout import Rollout
from mmrs.runs.build import build_envs
from mmrs.runs.config import TrainConfig
from mmrs.runs.folder import RunFolder
from mmrs.runs.load import load_bonus, rollout_of
from mmrs.runs.threads import use_threads
from mmrs.spaces import ObservationSpec
from mmrs.storage import checkpoint as store

CODES = 64
"""Clusters that stand for states where there are too many to count."""
PROJECTION = 32
STILL_UPDATES = 16
"""Updates the bonus may learn from standing still, before it is asked what that pays."""


@dataclass(frozen=True)
class Probe:
    """What was seen of a trained bonus; R rollouts of the run's own shape, one after the other in time."""

    paid: Tensor
    """``[R*T, N]`` bonus of each step, before scale, centring and weight."""
    done: Tensor
    """``[R*T, N]`` bool, the episode ended with the step."""
    before: Tensor
    """``[R*T, N]`` code of the state a step starts from: the state itself, or its cluster."""
    after: Tensor
    """``[R*T, N]`` code of the true successor."""
    visits: Tensor
    """``[R*T, N]`` earlier visits of `after` in the same episode."""
    moving: float
    """Mean bonus of the last rollout, from a bonus that has learned from standing still for a while."""
    still: float
    """Mean bonus of as many steps that all see one state, from the same."""


def probe(run: RunFolder, steps: int, seed: int) -> Probe | None:
    """Play at least `steps` steps with the newest checkpoint's policy and ask its bonus; None without a bonus."""
    settings = run.read_config(TrainConfig)
    _, tree = store.load(run.checkpoints)
    use_threads(settings.threads)
    with closing(build_envs(replace(settings.env, vectorization="sync"))) as envs:
        policy = Policy(envs.observation_space, envs.action_space, tree["trainer"], seed)
        wrapped, memory = load_bonus(settings, envs, tree["trainer"], longer=2)
        if wrapped is None:
            return None
        bonus, memory = _bare(wrapped, memory)
        count = max(2, -(-steps // (settings.num_steps * envs.num_envs)))
        rollouts = _play(policy, envs, settings.num_steps, count, seed)
    return _ask(bonus, memory, rollouts)


def _bare(bonus: IntrinsicReward, memory: Memory | None) -> tuple[IntrinsicReward, Memory | None]:
    """The reward inside its scale and weight: they change its size, and centring would hide what it pays for."""
    while isinstance(bonus, Scaled | Weighted):
        bonus, memory = bonus.reward, memory["reward"] if memory else None
    return bonus, memory


def _play(policy: Policy, envs: TrainingEnvs, num_steps: int, count: int, seed: int) -> list[Rollout]:
    obs = envs.reset(seed)
    rollouts = []
    for _ in range(count):
        seen, actions = [obs], []
        steps: list[Step] = []
        while len(steps) < num_steps:
            actions.append(policy.act(obs, False))
            steps.append(envs.step(actions[-1]))
            obs = steps[-1].obs
            seen.append(obs)
        rollouts.append(rollout_of(policy, seen, actions, steps))
    return rollouts


def _ask(bonus: IntrinsicReward, memory: Memory | None, rollouts: list[Rollout]) -> Probe:
    paid, start = [], memory
    for rollout in rollouts:
        score, memory = bonus.compute(rollout, memory)
        paid.append(score)
    done = torch.cat([rollout.done for rollout in rollouts])
    before, after = _codes(bonus.observation_spec, rollouts)
    moving, still = _stand_still(bonus, start, rollouts[-1])
    return Probe(torch.cat(paid).double(), done, before, after, visits_before(after, done), moving, still)


def _stand_still(bonus: IntrinsicReward, memory: Memory | None, rollout: Rollout) -> tuple[float, float]:
    """Mean bonus of moving and of seeing one state for ever, once the bonus knows that state."""
    still = frozen(rollout)
    for _ in range(STILL_UPDATES):
        bonus.update(still)
    return tuple(float(bonus.compute(r, memory)[0].double().mean()) for r in (rollout, still))  # type: ignore[return-value]


def frozen(rollout: Rollout) -> Rollout:
    """As many steps in which each environment shows the state it was in half-way, and no episode ends."""
    middle = rollout.obs[rollout.num_steps // 2]
    never = torch.zeros_like(rollout.terminated)
    first = rollout.actions[:1].expand_as(rollout.actions)
    obs = middle.unsqueeze(0).expand(rollout.num_steps + 1, *middle.shape)
    return Rollout(obs=obs.clone(), actions=first.clone(), terminated=never, truncated=never, final_obs=None)


# --- states that can be counted ---------------------------------------------------------------------------------------


def _codes(spec: ObservationSpec, rollouts: list[Rollout]) -> tuple[Tensor, Tensor]:
    """Numbers of the states before and after each step: of a Discrete space the states, else clusters of them."""
    if spec.kind == "discrete":
        pairs = [rollout.pairs(spec.states) for rollout in rollouts]
        return torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])
    draw = torch.Generator().manual_seed(0)
    size = spec.size if spec.kind == "vector" else spec.features(rollouts[0].obs[0])[0].numel()
    project = torch.randn(size, min(size, PROJECTION), generator=draw) if size > PROJECTION else torch.eye(size)

    def small(states: Tensor) -> Tensor:
        return torch.cat([spec.features(part).flatten(1) @ project for part in states.split(256)])

    pairs = [rollout.pairs(small) for rollout in rollouts]
    both = torch.stack([torch.cat(side) for side in zip(*pairs, strict=True)])  # [2, R*T, N, d]
    points = both.flatten(0, 2)
    points = points / points.std(0).clamp_min(1e-6)
    labels = kmeans(points.unsqueeze(0), torch.ones(1, len(points), dtype=torch.bool), CODES, draw)
    return labels[0].view(both.shape[:3]).unbind()  # type: ignore[return-value]


def visits_before(codes: Tensor, done: Tensor) -> Tensor:
    """How often each code of ``[T, N]`` came up before in the same environment and episode."""
    length, count = codes.shape
    ended = done.to(torch.int64)
    episode = ended.cumsum(0) - ended
    key = ((episode * count + torch.arange(count)) * (int(codes.max()) + 1) + codes).T.flatten()
    order = torch.argsort(key, stable=True)
    ordered = key[order]
    new = torch.cat([torch.ones(1, dtype=torch.bool), ordered[1:] != ordered[:-1]])
    places = torch.arange(len(key))
    first = torch.where(new, places, 0).cummax(0).values
    visits: Any = torch.empty_like(places)
    visits[order] = places - first
    return torch.as_tensor(visits).view(count, length).T
