"""Environments of the package; importing this module registers them with Gymnasium."""

from __future__ import annotations

import gymnasium as gym

# Entry points are strings, so that numba and the drawing code are loaded only when needed. No other code of
# the package imports `mmrs.envs.maze.env`: when a module moves, these strings must follow.
if "mmrs/Maze2D-v0" not in gym.registry:
    gym.register("mmrs/Maze2D-v0", entry_point="mmrs.envs.maze.env:Maze2D")
if "mmrs/GridWorld-v0" not in gym.registry:
    # Unstated: the example has no end; a hundred steps let every cell be seen.
    gym.register("mmrs/GridWorld-v0", entry_point="mmrs.envs.maze.env:GridWorld", max_episode_steps=100)
for _world in ("KeyRooms", "MultiRooms", "NoisyTV"):
    if f"mmrs/{_world}-v0" not in gym.registry:
        gym.register(
            f"mmrs/{_world}-v0",
            entry_point="mmrs.envs.rooms.env:RoomsEnv",
            vector_entry_point="mmrs.envs.rooms.vector_env:RoomsVectorEnv",
            kwargs={"world": _world},
        )
