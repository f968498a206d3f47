"""A trajectory as a list of hashes, and a program that restores environments in its own process and continues there."""

import hashlib
import pickle
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from mmrs.envs.atari import AtariEnvs
from mmrs.envs.base import EnvStep, ResumableVectorEnv
from mmrs.envs.registry import make_envs

# Short games, so that many end and restart within a few hundred steps.
MAKERS = {
    "atari": lambda game, sticky: AtariEnvs(game, 3, sticky=sticky, reseed_every=100, max_frames=480, threads=1),
    "any": lambda env_id, every: make_envs(env_id, 3, reseed_every=every),
}


def make(recipe: tuple[Any, ...]) -> ResumableVectorEnv:
    return MAKERS[recipe[0]](*recipe[1:])


def column(state: list[dict[str, Any]], name: str) -> np.ndarray:
    """One entry of each environment's state."""
    return np.array([one[name] for one in state])


def digest(step: EnvStep, state: list[dict[str, Any]]) -> str:
    """Hash of all fields of a step and all counters."""
    content = hashlib.sha256()
    for array in (step.obs, step.reward, step.terminated, step.truncated, step.final_obs):
        content.update(np.ascontiguousarray(array).tobytes())
    content.update(repr(step.episodes).encode())
    for name in ("life_return", "game_return", "game_length", "since", "reseeds"):
        content.update(column(state, name).tobytes())
    return content.hexdigest()


def trace(envs: ResumableVectorEnv, actions: Iterable[Any]) -> list[str]:
    return [digest(envs.step(row), envs.state()) for row in actions]


def main() -> None:
    """Answer requests in one process: importing torch takes longer than most replays."""
    while True:
        try:
            recipe, cuts = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        answers = []
        for state, actions in cuts:
            envs = make(recipe)
            obs = envs.restore(state)
            answers.append((obs, trace(envs, actions)))
            envs.close()
        sys.stdout.buffer.write(pickle.dumps(answers))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
