"""The compiled room worlds as `ResumableVectorEnv`: saved and restored by copying their state, without replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from mmrs.envs.base import NO_EPISODES, EnvStep, Episodes, Values
from mmrs.envs.rooms.maps import reachable
from mmrs.envs.rooms.vector_env import RoomsVectorEnv
from mmrs.errors import InputError


class RoomsEnvs:
    """`ResumableVectorEnv` over `RoomsVectorEnv`.

    An episode that ends reports ``success``, ``states`` (number of true states it visited) and ``coverage`` (share of
    all true states that the environments of this object have visited together since they were made).

    Args:
        world: `KeyRooms`, `MultiRooms` or `NoisyTV`.
        num_envs: N.
        obs_type: `features` or `image`.
        first_index: Index of environment 0 within the run, if several objects share its environments.
    """

    def __init__(self, world: str, num_envs: int, *, obs_type: str = "features", first_index: int = 0) -> None:
        self.envs = RoomsVectorEnv(world, num_envs, obs_type, AutoresetMode.SAME_STEP)
        self.num_envs = num_envs
        self.observation_space = self.envs.single_observation_space
        self.action_space = self.envs.single_action_space
        self._first_index = first_index
        self._actions: Values | None = None
        self._received: EnvStep | None = None
        self._reachable_ever = reachable(self.envs.world)[1]

    @property
    def visits(self) -> Values:
        """``[N, S]``: visits to each true state."""
        return self.envs.visits

    def reset(self, seed: int) -> Values:
        """Start all environments afresh; environment i gets a seed derived from (seed, i). Returns ``[N, *obs]``."""
        if seed < 0:
            raise InputError(f"seed is {seed}, expected 0 or more.")
        self._require_idle()
        keys = range(self._first_index, self._first_index + self.num_envs)
        words = [np.random.SeedSequence(seed, spawn_key=(key,)).generate_state(1)[0] for key in keys]
        return self.envs.reset(seed=[int(word) for word in words])[0]

    def step(self, actions: Values) -> EnvStep:
        """Step all environments with ``[N]`` actions, checked against the action space first."""
        self.send(actions)
        return self.recv()

    def send(self, actions: Values) -> None:
        """Keep the actions; `recv_obs` does the work."""
        self._require_idle()
        self._actions = actions

    def poll(self) -> None:
        """Unknown: the step is computed by `recv_obs`."""

    def recv_obs(self) -> Values:
        """Compute the step; returns what the agent sees next."""
        if self._actions is None:
            raise InputError("No step is under way; call send() first.")
        if self._received is None:
            try:
                self._received = self._advance(self._actions)
            except BaseException:
                self._actions = None
                raise
        return self._received.obs

    def recv(self) -> EnvStep:
        """The step that `send` started."""
        self.recv_obs()
        step, self._received, self._actions = self._received, None, None
        assert step is not None
        return step

    def _advance(self, actions: Values) -> EnvStep:
        obs, last, (terminated, truncated), stats, ended = self.envs.advance(actions)
        reward = terminated.astype(np.float32)
        if not ended:
            return EnvStep(obs, reward, terminated, truncated, obs[:0], NO_EPISODES)
        done = terminated | truncated
        return EnvStep(obs, reward, terminated, truncated, last[done], self._episodes(done, reward, stats[1]))

    def _episodes(self, done: Values, reward: Values, stats: Values) -> Episodes:
        """Episodes that ended. Only the goal pays, so the last reward is the return."""
        coverage = np.count_nonzero(self.visits.any(0)) / self._reachable_ever
        returns = reward[done].tolist()
        states, lengths = stats[0, done].tolist(), stats[2, done].tolist()
        infos = [
            {"success": success, "states": float(seen), "coverage": coverage}
            for success, seen in zip(returns, states, strict=True)
        ]
        return Episodes(returns, list(returns), lengths, infos, np.flatnonzero(done).tolist())

    def state(self) -> list[dict[str, Any]]:
        """World name and state row of each environment."""
        self._require_idle()
        return [{"world": self.envs.world.name, "row": row.copy()} for row in self.envs.rows]

    def restore(self, state: Sequence[dict[str, Any]]) -> Values:
        """Bring freshly made environments exactly to where `state` was taken; returns the observation seen then."""
        worlds = {one["world"] for one in state}
        if worlds != {self.envs.world.name}:
            raise InputError(f"the state is of {', '.join(worlds)}, these environments are {self.envs.world.name}.")
        self.envs.load(np.stack([one["row"] for one in state]))
        return self.envs.observe()

    def _require_idle(self) -> None:
        if self._actions is not None:
            raise InputError("A step is under way; call recv() first.")

    def render(self) -> Values:
        """RGB picture ``[H, W, 3]`` of environment 0 as it is now."""
        return self.envs.picture(0)

    def close(self) -> None:
        """Nothing to release."""
        self.envs.close()
