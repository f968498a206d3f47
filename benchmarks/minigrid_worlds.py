"""MiniGrid's worlds as vectors: the content of each of the 7x7 cells in view, and the state of its door."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

NAMES = {"DoorKey-8x8": "MiniGrid-DoorKey-8x8-v0", "MultiRoom-N4": "MiniGrid-MultiRoom-N4-S5-v1"}
OBJECTS, DOOR_STATES = 11, 3


class OneHotView(gym.ObservationWrapper):
    """The egocentric view ``[7, 7, (object, color, state)]`` as one-hot vectors, without color and mission."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._objects, self._states = np.eye(OBJECTS, dtype=np.float32), np.eye(DOOR_STATES, dtype=np.float32)
        self.observation_space = spaces.Box(0.0, 1.0, (49 * (OBJECTS + DOOR_STATES),), np.float32)

    def observation(self, observation: dict[str, Any]) -> Any:
        view = observation["image"].reshape(49, 3)
        return np.concatenate([self._objects[view[:, 0]], self._states[view[:, 2]]], 1).ravel()


class Success(gym.Wrapper):
    """Adds to `info` whether the goal was reached."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "success": float(reward > 0)}


def make(name: str, **options: Any) -> gym.Env:
    """One world, observed as a vector."""
    import minigrid  # noqa: F401, PLC0415 (registers the worlds)

    return Success(OneHotView(gym.make(NAMES[name], **options)))


def register() -> None:
    """Make the worlds known to Gymnasium as ``minigrid/<name>``."""
    for name in NAMES:
        if f"minigrid/{name}" not in gym.registry:
            gym.register(f"minigrid/{name}", partial(make, name))
