"""The compiled room worlds to train in: saved and restored by copying their numbers, without replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from mmrs.envs.base import Episodes, Step, Values
from mmrs.envs.rooms.maps import reachable
from mmrs.envs.rooms.vector_env import RoomsVectorEnv
from mmrs.errors import InputError

NOTHING_ENDED = Episodes()


class RoomsEnvs:
    """`TrainingEnvs` over `RoomsVectorEnv`.

    An episode that ends reports ``success``, ``states`` (true states it visited) and ``coverage`` (share of all true
    states that these environments have visited together since they began; those of another object are not among them).

    Args:
        world: `KeyRooms`, `MultiRooms` or `NoisyTV`.
        num_envs: N.
        obs_type: `features` or `image`.
        first_index: Number of environment 0 in the run, where several objects share its environments.
    """

    def __init__(self, world: str, num_envs: int, *, obs_type: str = "features", first_index: int = 0) -> None:
        self.envs = RoomsVectorEnv(world, num_envs, obs_type, AutoresetMode.SAME_STEP)
        self.num_envs = num_envs
        self.observation_space = self.envs.single_observation_space
        self.action_space = self.envs.single_action_space
        self._first_index = first_index
        self._actions: Values | None = None
        self._arrived: Step | None = None
        self._ever = reachable(self.envs.world)[1]

    @property
    def visits(self) -> Values:
        """``[N, S]``: visits to each true state."""
        return self.envs.visits

    def reset(self, seed: int) -> Values:
        """Start all environments afresh; environment i gets a seed derived from (seed, i). Returns ``[N, *obs]``."""
        if seed < 0:
            raise InputError(f"seed is {seed}, expected 0 or more.")
        self._refuse_under_way()
        keys = range(self._first_index, self._first_index + self.num_envs)
        words = [np.random.SeedSequence(seed, spawn_key=(key,)).generate_state(1)[0] for key in keys]
        return self.envs.reset(seed=[int(word) for word in words])[0]

    def step(self, actions: Values) -> Step:
        """Step all environments with ``[N]`` actions, checked against the action space first."""
        self.send(actions)
        return self.recv()

    def send(self, actions: Values) -> None:
        """Keep the actions: there is nobody else to do the work."""
        self._refuse_under_way()
        self._actions = actions

    def ready(self) -> None:
        """Only `wait` can tell whether a step is done."""

    def wait(self) -> Values:
        """Step; what the agent sees next."""
        if self._actions is None:
            raise InputError("No step is under way; call send() first.")
        if self._arrived is None:
            try:
                self._arrived = self._advance(self._actions)
            except BaseException:
                self._actions = None
                raise
        return self._arrived.obs

    def recv(self) -> Step:
        """The whole step."""
        self.wait()
        step, self._arrived, self._actions = self._arrived, None, None
        assert step is not None
        return step

    def _advance(self, actions: Values) -> Step:
        obs, last, (terminated, truncated), told, ended = self.envs.advance(actions)
        reward = terminated.astype(np.float32)
        if not ended:
            return Step(obs, reward, terminated, truncated, obs[:0], NOTHING_ENDED)
        done = terminated | truncated
        return Step(obs, reward, terminated, truncated, last[done], self._episodes(done, reward, told[1]))

    def _episodes(self, done: Values, reward: Values, told: Values) -> Episodes:
        """Nothing but the goal pays, so that the last reward is the return."""
        coverage = np.count_nonzero(self.visits.any(0)) / self._ever
        returns = reward[done].tolist()
        states, lengths = told[0, done].tolist(), told[2, done].tolist()
        infos = [
            {"success": success, "states": float(seen), "coverage": coverage}
            for success, seen in zip(returns, states, strict=True)
        ]
        return Episodes(returns, list(returns), lengths, infos, np.flatnonzero(done).tolist())

    def state(self) -> list[dict[str, Any]]:
        """The numbers of each environment."""
        self._refuse_under_way()
        return [{"world": self.envs.world.name, "row": row.copy()} for row in self.envs.rows]

    def restore(self, state: Sequence[dict[str, Any]]) -> Values:
        """Bring freshly made environments exactly to where `state` was taken; returns the observation seen then."""
        worlds = {one["world"] for one in state}
        if worlds != {self.envs.world.name}:
            raise InputError(f"the state is of {', '.join(worlds)}, these environments are {self.envs.world.name}.")
        self.envs.load(np.stack([one["row"] for one in state]))
        return self.envs.observe()

    def _refuse_under_way(self) -> None:
        if self._actions is not None:
            raise InputError("A step is under way; call recv() first.")

    def render(self) -> Values:
        """RGB picture ``[H, W, 3]`` of environment 0 as it is now."""
        return self.envs.picture(0)

    def close(self) -> None:
        """Nothing to release."""
        self.envs.close()
