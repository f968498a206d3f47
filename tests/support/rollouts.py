"""Rollouts for tests, every reward with small networks, and comparison of nested states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

import mmrs
from mmrs.rewards import REWARDS, IntrinsicReward

# --- spaces ---------------------------------------------------------------------------------------------------------


def image(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


OBSERVATIONS: dict[str, spaces.Space] = {
    "image_chw": image(3, 36, 40),
    "image_hwc": image(36, 36, 1),
    "image_hw": image(37, 36),
    "image_atari": image(84, 84, 4),
    "image_rgb_stack": image(64, 64, 12),
    "image_wide": image(1, 36, 71),
    "vector": spaces.Box(-np.inf, np.inf, (5,), np.float32),
    "vector_double": spaces.Box(-1, 1, (2, 3), np.float64),
    "vector_bytes": image(4, 4),
    "scalar": spaces.Box(-1, 1, (), np.float32),
    "discrete": spaces.Discrete(7),
    "discrete_start": spaces.Discrete(5, start=3),
}
ACTIONS: dict[str, spaces.Space] = {
    "discrete": spaces.Discrete(4),
    "discrete_start": spaces.Discrete(3, start=-1),
    "multi_discrete": spaces.MultiDiscrete([3, 2]),
    "multi_discrete_start": spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[1, 5], [0, -2]]),
    "multi_binary": spaces.MultiBinary(3),
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "box_one": spaces.Box(-1, 1, (1,), np.float32),
    "box_grid": spaces.Box(-1, 1, (2, 2), np.float64),
}
MOVES = ACTIONS["discrete"]

# --- rewards --------------------------------------------------------------------------------------------------------

SMALL = {
    "landmarks": {"k": 4, "latent_dim": 8, "batch_size": 8},
    "mmrs": {"k": 4, "latent_dim": 8, "batch_size": 8},
    "re3": {"latent_dim": 8},
    "ride": {"latent_dim": 8, "memory_size": 6, "batch_size": 8, "learning_rate": 1e-3},
    "rnd": {"latent_dim": 8, "batch_size": 8, "learning_rate": 1e-3},
}
DISCRETE_ONLY = {"jfi", "count_bonus", "count_penalty", "coverage", "entropy", "exp_decay"}
Factory = Callable[..., IntrinsicReward]


def small(name: str, observation_space, action_space=MOVES, *, seed: int = 0, **options) -> IntrinsicReward:
    return mmrs.make(name, observation_space, action_space, seed=seed, **{**SMALL.get(name, {}), **options})


def _scaled(name: str, **options) -> Factory:
    return lambda obs, act=MOVES, *, seed=0: mmrs.Scaled(small(name, obs, act, seed=seed), **options)


def _fading(obs, act=MOVES, *, seed=0):
    return mmrs.Weighted(small("ride", obs, act, seed=seed), 0.5, final_weight=0.1, over_updates=3)


def _sum(*names: str) -> Factory:
    return lambda obs, act=MOVES, *, seed=0: mmrs.Sum({n: small(n, obs, act, seed=seed) for n in names})


FACTORIES: dict[str, Factory] = {name: partial(small, name) for name in REWARDS}
FACTORIES |= {
    "mmrs_env": partial(small, "mmrs", clustering="env", count_scope="episode", lambda_l=0.1, mask_uncontrollable=True),
    "mmrs_paper": partial(small, "mmrs", preset="paper", k=4),
    "mmrs_author": partial(small, "mmrs", preset="author", k=4),
    "landmarks_vae": partial(
        small, "landmarks", encoder="vae", lambda_l=0.1, bonus="clipped", lifelong_weight="count", input_scale="std"
    ),
    "landmarks_inverse": partial(
        small,
        "landmarks",
        encoder="inverse",
        bonus="count",
        lifelong_weight="none",
        input_scale="none",
        insert_filter="revisited",
    ),
    "re3_episode": partial(small, "re3", trajectory="episode"),
    "jfi_lifelong": partial(small, "jfi", scope="lifelong", count_start=False, terminal_potential="zero", gamma_g=0.9),
    "scaled_rnd": _scaled("rnd"),
    "scaled_mmrs": _scaled("mmrs", by="reward"),
    "scaled_jfi": _scaled("jfi", center=True),
    "weighted_ride": _fading,
    "sum_re3_rnd": _sum("re3", "rnd"),
    "sum_ride_rnd": _sum("ride", "rnd"),
    "sum_jfi_rnd": _sum("jfi", "rnd"),
}
DISCRETE_FACTORIES = DISCRETE_ONLY | {"jfi_lifelong", "scaled_jfi", "sum_jfi_rnd"}
LEARNING = [n for n in FACTORIES if n not in DISCRETE_ONLY | {"jfi_lifelong", "scaled_jfi", "re3", "re3_episode"}]
CAUSAL = [
    "jfi", "jfi_lifelong", "count_bonus", "count_penalty", "coverage", "entropy", "exp_decay", "ride", "rnd",
    "scaled_rnd", "scaled_jfi", "weighted_ride", "sum_ride_rnd", "sum_jfi_rnd",
    "landmarks", "landmarks_vae", "landmarks_inverse",
]  # fmt: skip
EXACT = DISCRETE_ONLY | {"jfi_lifelong"}
"""Causal rewards made of integers: step by step must equal batched bit for bit."""


def fits(reward: str, observations: str) -> bool:
    return reward not in DISCRETE_FACTORIES or observations.startswith("discrete")


def observed_by(reward: str, *kinds: str) -> str:
    """The first of these kinds of observation that a reward reads."""
    return next(kind for kind in (*kinds, "discrete") if fits(reward, kind))


# --- rollouts -------------------------------------------------------------------------------------------------------


def sample(space: spaces.Space, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.start, space.start + space.n, shape)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start + rng.integers(0, space.nvec, (*shape, *space.shape))
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, (*shape, *space.shape)).astype(np.int8)
    if space.dtype == np.uint8:
        return rng.integers(0, 256, (*shape, *space.shape), np.uint8)
    return rng.standard_normal((*shape, *space.shape)).astype(space.dtype)


def flags(steps: int, envs: int, rng: np.random.Generator, end=0.3, dummies=False) -> tuple[np.ndarray, ...]:
    """terminated, truncated and valid; with `dummies` the step after an end is one, as under NEXT_STEP."""
    ends = rng.random((steps, envs)) < end
    valid = np.ones((steps, envs), bool)
    if dummies:
        for t in range(1, steps):
            valid[t] = ~(ends[t - 1] & valid[t - 1])
    by_time = rng.random((steps, envs)) < 0.5
    return ends & ~by_time, ends & by_time, valid


def make_rollout(
    observation_space, action_space=MOVES, steps=6, envs=3, seed=0, end=0.3, dummies=False, marks=None
) -> mmrs.Rollout:
    """Random states, actions and ends; `marks` replaces (terminated, truncated, valid)."""
    rng = np.random.default_rng(seed)
    terminated, truncated, valid = marks or flags(steps, envs, rng, end, dummies)
    ended = int(((terminated | truncated) & valid).sum())
    return mmrs.Rollout(
        obs=sample(observation_space, (steps + 1, envs), rng),
        actions=sample(action_space, (steps, envs), rng),
        terminated=terminated,
        truncated=truncated,
        final_obs=sample(observation_space, (ended,), rng),
        valid=valid,
    )


def parts(rollout: mmrs.Rollout) -> dict[str, Tensor]:
    """Copies of the fields, to change and build another rollout from."""
    return {f.name: getattr(rollout, f.name).clone() for f in fields(rollout)}


def cut(rollout: mmrs.Rollout, borders: list[int]) -> list[mmrs.Rollout]:
    """The rollout in pieces of time, each a rollout of its own."""
    edges = sorted({0, *borders, rollout.num_steps})
    when = rollout.done.nonzero()[:, 0]
    pieces = []
    for a, b in pairwise(edges):
        pieces.append(
            mmrs.Rollout(
                obs=rollout.obs[a : b + 1],
                actions=rollout.actions[a:b],
                terminated=rollout.terminated[a:b],
                truncated=rollout.truncated[a:b],
                final_obs=rollout.final_obs[(when >= a) & (when < b)],
                valid=rollout.valid[a:b],
            )
        )
    return pieces


# --- comparison -----------------------------------------------------------------------------------------------------


def frozen(value):
    """A deep copy of nested dictionaries, lists and tensors."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: frozen(v) for k, v in value.items()}
    return type(value)(frozen(v) for v in value) if isinstance(value, list | tuple) else value


def assert_same(a, b, *, close: bool = False, path: str = "") -> None:
    """Nested states are equal bit for bit (or close)."""
    assert isinstance(a, dict) == isinstance(b, dict), f"{path}: {type(a)} is not {type(b)}"
    if isinstance(a, Tensor):
        assert a.shape == b.shape, path
        assert a.dtype == b.dtype, path
        if close and a.is_floating_point():
            torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-5, msg=lambda m: f"{path}: {m}")
        else:
            assert torch.equal(a, b), f"{path}: {a} is not {b}"
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            assert_same(a[key], b[key], close=close, path=f"{path}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, close=close, path=f"{path}/{i}")
    else:
        assert a == b, path
