"""Environments whose exact state is saved as the seed of the last seeded reset and the actions since.

Simulators cannot be saved to the bit. But a seeded reset forgets everything before it, so the seed and the actions
after it lead to the same state again. To keep this replay short, each environment gets a seeded reset at its first
game over after every `reseed_every` steps. The schedule depends only on the number of steps: checkpoints do not
change a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mmrs.envs.action_log import ActionLog
from mmrs.envs.base import NO_EPISODES, ActionCheck, BackendStep, EnvStep, Episodes, Values, VectorBackend
from mmrs.errors import EnvError, InputError

_REPRODUCED = ("life_return", "game_return", "game_length", "observation")


class ReplayedEnvs:
    """`ResumableVectorEnv` over any `VectorBackend`: checks actions, counts returns, reseeds, saves and replays.

    Args:
        backend: The simulators.
        reseed_every: Steps after which each environment gets a seeded reset, at its next game over. It forces such a
            reset so that replay stays short.
        first_index: Index of environment 0 within the run, if several objects share its environments: two halves
            with 0 and N / 2 give exactly the steps of the whole.
    """

    def __init__(self, backend: VectorBackend, *, reseed_every: int, first_index: int = 0) -> None:
        if reseed_every < 1:
            raise InputError(f"reseed_every is {reseed_every}, expected at least 1.")
        self.num_envs = backend.num_envs
        self.observation_space = backend.observation_space
        self.action_space = backend.action_space
        self._backend = backend
        self._reseed_every = reseed_every
        self._first_index = first_index
        self._check = ActionCheck(backend.action_space, backend.num_envs)
        self._pending: Values | None = None
        self._received: BackendStep | EnvStep | None = None
        self._obs: Values = np.empty((0,))
        self._start_counting(seed=0)

    def _start_counting(self, seed: int) -> None:
        if self._pending is not None:
            raise InputError("A step is under way; call recv() first.")
        n = self.num_envs
        self._seed = seed
        self._log = ActionLog(self._check.shape, self._check.log_dtype)
        self._reseeds = np.zeros(n, np.int64)
        self._since = np.zeros(n, np.int64)  # step number of the last seeded reset
        self._episode_return, self._game_return = np.zeros(n), np.zeros(n)
        self._game_length = np.zeros(n, np.int64)

    def reset(self, seed: int) -> Values:
        """Start all environments afresh; environment i gets a seed derived from (seed, i). Returns ``[N, *obs]``."""
        if seed < 0:
            raise InputError(f"seed is {seed}, expected 0 or more.")
        self._start_counting(seed)
        everyone = np.ones(self.num_envs, bool)
        self._obs = self._backend.reset(everyone, self._seeds(everyone))
        return self._obs.copy()

    def _seeds(self, mask: Values) -> Values:
        """Seed of each environment in the mask, derived from (run seed, environment, number of reseeds)."""
        keys = [(self._first_index + int(i), int(self._reseeds[i])) for i in np.flatnonzero(mask)]
        words = [np.random.SeedSequence(self._seed, spawn_key=key).generate_state(1)[0] for key in keys]
        return np.array(words, np.int64) & 0x7FFFFFFF  # emulators take 31 bits

    def step(self, actions: Values) -> EnvStep:
        """Step all environments with ``[N, *act]`` actions, checked against the action space first."""
        self.send(actions)
        return self.recv()

    def send(self, actions: Values) -> None:
        """Start a step; the caller may do something else until `recv`."""
        if self._pending is not None:
            raise InputError("A step is already under way; call recv() first.")
        if not len(self._obs):
            raise InputError("Call reset() or restore() before the first step.")
        checked = self._check(actions)
        self._backend.send(checked)
        self._pending = checked

    def poll(self) -> None:
        """Unknown: a backend can only be waited for."""

    def recv_obs(self) -> Values:
        """Wait for the step that `send` started: what the agent sees next, before the step is counted."""
        if self._pending is None:
            raise InputError("No step is under way; call send() first.")
        if self._received is None:
            try:
                raw = self._backend.recv()
                # A game over may need a seeded reset, which changes the observation: then the step is counted now.
                self._received = self._count_and_log(raw) if np.count_nonzero(raw.game_over) else raw
            except BaseException:
                self._pending = None  # `state` stays that before this step
                raise
        return self._received.obs

    def recv(self) -> EnvStep:
        """The step that `send` started: waited for if need be, counted and logged."""
        self.recv_obs()
        received = self._received
        try:
            if isinstance(received, BackendStep):
                return self._count_and_log(received)
            return received  # type: ignore[return-value]
        finally:
            self._pending = self._received = None

    def _count_and_log(self, raw: BackendStep) -> EnvStep:
        """Count a step, log its actions, and reseed the environments that are due."""
        assert self._pending is not None
        episodes = self._count(raw)
        self._log.append(self._pending, self._since)
        self._obs = raw.obs
        if episodes.game_returns:
            # A reseed is due if a multiple of `reseed_every` was passed since the last seeded reset.
            due = raw.game_over & (self._log.steps // self._reseed_every > self._since // self._reseed_every)
            if due.any():
                self._reseed(due)
        return EnvStep(self._obs, raw.reward.astype(np.float32), raw.terminated, raw.truncated, raw.final_obs, episodes)

    def _reseed(self, due: Values) -> None:
        self._reseeds[due] += 1
        self._since[due] = self._log.steps
        self._obs[due] = self._backend.reset(due, self._seeds(due))

    def _count(self, raw: BackendStep) -> Episodes:
        """Add up returns; returns the episodes and games that ended."""
        self._require_finite("reward", raw.reward)
        if raw.obs.dtype.kind == "f":
            self._require_finite("observation", raw.obs)
            if len(raw.final_obs):
                self._require_finite("last observation", raw.final_obs, np.flatnonzero(raw.done))
        self._episode_return += raw.reward
        self._game_return += raw.reward
        self._game_length += 1
        done, over = raw.done, raw.game_over
        if not np.count_nonzero(done):
            return NO_EPISODES
        episodes = Episodes(
            self._episode_return[done].tolist(),
            self._game_return[over].tolist(),
            self._game_length[over].tolist(),
            raw.infos,
            np.flatnonzero(over).tolist(),
        )
        self._episode_return[done] = 0.0
        self._game_return[over] = 0.0
        self._game_length[over] = 0
        return episodes

    def _require_finite(self, name: str, values: Values, indices: Values | None = None) -> None:
        """Raise an error at a value that is not finite: it would make every weight it reaches NaN."""
        finite = np.isfinite(values)
        if np.count_nonzero(finite) == finite.size:
            return
        row = int(np.argwhere(~finite)[0][0])
        index = self._first_index + (row if indices is None else int(indices[row]))
        raise EnvError(
            f"Environment {index} returned {values[row]} as {name} at its step {self._log.steps + 1}. "
            "The simulation has become unstable; check the size of actions and rewards."
        )

    def state(self) -> list[dict[str, Any]]:
        """One dictionary per environment with all that `restore` needs: seed, actions since, and returns so far."""
        if self._pending is not None:
            raise InputError("A step is under way; call recv() before state().")
        return [self._state_of(i) for i in range(self.num_envs)]

    def _state_of(self, i: int) -> dict[str, Any]:
        since = int(self._since[i])
        return {
            "seed": self._seed,
            "steps": self._log.steps,
            "reseed_every": self._reseed_every,
            "reseeds": int(self._reseeds[i]),
            "since": since,
            "actions": self._log.since(since)[:, i].copy(),
            "life_return": float(self._episode_return[i]),
            "game_return": float(self._game_return[i]),
            "game_length": int(self._game_length[i]),
            "observation": _digest(self._obs[i]),
        }

    def restore(self, state: Sequence[dict[str, Any]], progress: Callable[[int, int], None] | None = None) -> Values:
        """Bring freshly made environments exactly to where `state` was taken; returns the observation seen then.

        Args:
            state: From `state()` of environments made the same way, whichever of them were stepped together.
            progress: Called with (steps replayed, steps to replay).

        Raises:
            EnvError: Replay did not lead to the same state, so the run could not continue exactly.
        """
        shapes = {(len(state), *np.shape(one["actions"])[1:]) for one in state}
        if shapes != {self._check.shape}:
            raise InputError(f"The state has actions of shape {shapes}, these environments take {self._check.shape}.")
        self._start_counting(int(state[0]["seed"]))
        self._reseed_every = int(state[0]["reseed_every"])
        self._reseeds[:], self._since[:] = ([one[name] for one in state] for name in ("reseeds", "since"))
        actions = self._log.load([one["actions"] for one in state], int(state[0]["steps"]))
        self._replay(actions, self._since - self._since.min(), progress)
        now = self.state()
        wrong = [name for name in _REPRODUCED if [one[name] for one in now] != [one[name] for one in state]]
        if wrong:
            raise EnvError(
                f"The environments replayed {len(actions)} steps but did not reach the same state "
                f"({', '.join(wrong)} differ). Were they made with the same id, options and versions? "
                "An environment whose reset(seed=...) does not forget its past cannot be resumed exactly."
            )
        return self._obs.copy()

    def _replay(self, actions: Values, starts: Values, progress: Callable[[int, int], None] | None) -> None:
        """Step through the log; environment i gets its seeded reset at row ``starts[i]``, so that all end together."""
        everyone = np.ones(self.num_envs, bool)
        self._obs = self._backend.reset(everyone, self._seeds(everyone))
        for row in range(len(actions) + 1):
            joining = starts == row
            if row and joining.any():
                self._obs[joining] = self._backend.reset(joining, self._seeds(joining))
                for counter in (self._episode_return, self._game_return, self._game_length):
                    counter[joining] = 0
            if row < len(actions):
                self._backend.send(self._check(actions[row]))
                raw = self._backend.recv()
                self._obs = raw.obs
                self._count(raw)
                if progress is not None:
                    progress(row + 1, len(actions))

    def render(self) -> Values:
        """RGB picture ``[H, W, 3]`` of environment 0 as it is now."""
        return self._backend.render()

    def close(self) -> None:
        """Release processes and simulators."""
        self._backend.close()


def _digest(obs: Values) -> str:
    """Hash of an observation."""
    return hashlib.blake2b(np.ascontiguousarray(obs).tobytes(), digest_size=16).hexdigest()
