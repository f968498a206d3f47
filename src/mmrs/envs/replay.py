"""Environments whose exact place can be written down: the seed of the last seeded reset and the actions since.

Simulators cannot be saved to the bit, but a seeded reset forgets all that went before it, so a seed and the actions
after it lead to the same place again. To keep that way short, an environment gets a fresh seeded reset at its first
game over after every `reseed_every` steps. The schedule counts steps from the start and knows nothing of checkpoints:
a run that takes more of them goes no other way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mmrs.envs.action_log import ActionLog
from mmrs.envs.base import ActionCheck, Episodes, RawStep, Step, Stepper, Values
from mmrs.errors import EnvironmentFault, InputError

NOTHING_ENDED = Episodes()
_REPRODUCED = ("life_return", "game_return", "game_length", "observation")


class ReplayedEnvs:
    """`TrainingEnvs` over any `Stepper`: checks actions, counts returns, reseeds on schedule, saves and replays.

    Args:
        stepper: The simulators.
        reseed_every: Steps after which each environment gets a seeded reset at its next game over.
        first_index: Number of environment 0 in the run, where several objects share its environments: two halves
            with 0 and N / 2 go exactly the way of the whole.
    """

    def __init__(self, stepper: Stepper, *, reseed_every: int, first_index: int = 0) -> None:
        if reseed_every < 1:
            raise InputError(f"reseed_every is {reseed_every}, expected at least 1.")
        self.num_envs = stepper.num_envs
        self.observation_space = stepper.observation_space
        self.action_space = stepper.action_space
        self._stepper = stepper
        self._every = reseed_every
        self._first_index = first_index
        self._check = ActionCheck(stepper.action_space, stepper.num_envs)
        self._pending: Values | None = None
        self._arrived: RawStep | Step | None = None
        self._obs: Values = np.empty((0,))
        self._start_counting(seed=0)

    def _start_counting(self, seed: int) -> None:
        if self._pending is not None:
            raise InputError("A step is under way; call recv() first.")
        n = self.num_envs
        self._seed = seed
        self._log = ActionLog(self._check.shape, self._check.log_dtype)
        self._reseeds = np.zeros(n, np.int64)
        self._since = np.zeros(n, np.int64)  # step of the last seeded reset
        self._life, self._game, self._length = np.zeros(n), np.zeros(n), np.zeros(n, np.int64)

    def reset(self, seed: int) -> Values:
        """Start all environments afresh; environment i gets a seed derived from (seed, i). Returns ``[N, *obs]``."""
        if seed < 0:
            raise InputError(f"seed is {seed}, expected 0 or more.")
        self._start_counting(seed)
        everyone = np.ones(self.num_envs, bool)
        self._obs = self._stepper.reset(everyone, self._seeds(everyone))
        return self._obs.copy()

    def _seeds(self, mask: Values) -> Values:
        """Seed of each environment in the mask, from (run seed, environment, number of reseeds)."""
        keys = [(self._first_index + int(i), int(self._reseeds[i])) for i in np.flatnonzero(mask)]
        words = [np.random.SeedSequence(self._seed, spawn_key=key).generate_state(1)[0] for key in keys]
        return np.array(words, np.int64) & 0x7FFFFFFF  # emulators take 31 bits

    def step(self, actions: Values) -> Step:
        """Step all environments with ``[N, *act]`` actions, checked against the action space first."""
        self.send(actions)
        return self.recv()

    def send(self, actions: Values) -> None:
        """Start a step; the environments work while the caller does something else."""
        if self._pending is not None:
            raise InputError("A step is already under way; call recv() first.")
        if not len(self._obs):
            raise InputError("Call reset() or restore() before the first step.")
        checked = self._check(actions)
        self._stepper.send(checked)
        self._pending = checked

    def ready(self) -> None:
        """Only `wait` can tell whether a step is done."""

    def wait(self) -> Values:
        """Wait for the step that `send` started: what the agent sees next, before the step is counted."""
        if self._pending is None:
            raise InputError("No step is under way; call send() first.")
        if self._arrived is None:
            try:
                raw = self._stepper.recv()
                # A game over may call for a seeded reset, which shows another observation: then all is done at once.
                self._arrived = self._take(raw) if np.count_nonzero(raw.game_over) else raw
            except BaseException:
                self._pending = None  # `state` stays where it was before this step
                raise
        return self._arrived.obs

    def recv(self) -> Step:
        """The step that `send` started: waited for if need be, counted and written down."""
        self.wait()
        arrived = self._arrived
        try:
            return self._take(arrived) if isinstance(arrived, RawStep) else arrived  # type: ignore[return-value]
        finally:
            self._pending = self._arrived = None

    def _take(self, raw: RawStep) -> Step:
        """Count a step, write its actions down, and reseed where that is due."""
        assert self._pending is not None
        episodes = self._count(raw)
        self._log.append(self._pending, self._since)
        self._obs = raw.obs
        if episodes.game_returns:
            # A game over is due when a multiple of `reseed_every` was passed since the last seeded reset.
            due = raw.game_over & (self._log.steps // self._every > self._since // self._every)
            if due.any():
                self._reseed(due)
        return Step(self._obs, raw.reward.astype(np.float32), raw.terminated, raw.truncated, raw.final_obs, episodes)

    def _reseed(self, due: Values) -> None:
        self._reseeds[due] += 1
        self._since[due] = self._log.steps
        self._obs[due] = self._stepper.reset(due, self._seeds(due))

    def _count(self, raw: RawStep) -> Episodes:
        """Add up returns and hand out those of what ended."""
        self._refuse_infinite("reward", raw.reward)
        if raw.obs.dtype.kind == "f":
            self._refuse_infinite("observation", raw.obs)
            if len(raw.final_obs):
                self._refuse_infinite("last observation", raw.final_obs, np.flatnonzero(raw.done))
        self._life += raw.reward
        self._game += raw.reward
        self._length += 1
        done, over = raw.done, raw.game_over
        if not np.count_nonzero(done):
            return NOTHING_ENDED
        episodes = Episodes(
            self._life[done].tolist(),
            self._game[over].tolist(),
            self._length[over].tolist(),
            raw.infos,
            np.flatnonzero(over).tolist(),
        )
        self._life[done] = 0.0
        self._game[over] = 0.0
        self._length[over] = 0
        return episodes

    def _refuse_infinite(self, name: str, values: Values, indices: Values | None = None) -> None:
        """A number that is not finite would poison every weight it reaches."""
        finite = np.isfinite(values)
        if np.count_nonzero(finite) == finite.size:
            return
        row = int(np.argwhere(~finite)[0][0])
        index = self._first_index + (row if indices is None else int(indices[row]))
        raise EnvironmentFault(
            f"Environment {index} returned {values[row]} as {name} at its step {self._log.steps + 1}. "
            "The simulation has broken down; check the size of actions and rewards."
        )

    def state(self) -> list[dict[str, Any]]:
        """Of each environment the seed, the actions since, and the returns counted so far: all `restore` needs."""
        if self._pending is not None:
            raise InputError("A step is under way; call recv() before state().")
        return [self._state_of(i) for i in range(self.num_envs)]

    def _state_of(self, i: int) -> dict[str, Any]:
        since = int(self._since[i])
        return {
            "seed": self._seed,
            "steps": self._log.steps,
            "reseed_every": self._every,
            "reseeds": int(self._reseeds[i]),
            "since": since,
            "actions": self._log.since(since)[:, i].copy(),
            "life_return": float(self._life[i]),
            "game_return": float(self._game[i]),
            "game_length": int(self._length[i]),
            "observation": _digest(self._obs[i]),
        }

    def restore(self, state: Sequence[dict[str, Any]], progress: Callable[[int, int], None] | None = None) -> Values:
        """Bring freshly made environments exactly to where `state` was taken; returns the observation seen then.

        Args:
            state: From `state()` of environments made the same way, whichever of them were stepped together.
            progress: Called with (steps replayed, steps to replay).

        Raises:
            EnvironmentFault: The environments did not come to the same place, so the run could not go on exactly.
        """
        shapes = {(len(state), *np.shape(one["actions"])[1:]) for one in state}
        if shapes != {self._check.shape}:
            raise InputError(f"The state is of actions {shapes}, these environments take {self._check.shape}.")
        self._start_counting(int(state[0]["seed"]))
        self._every = int(state[0]["reseed_every"])
        self._reseeds[:], self._since[:] = ([one[name] for one in state] for name in ("reseeds", "since"))
        actions = self._log.load([one["actions"] for one in state], int(state[0]["steps"]))
        self._replay(actions, self._since - self._since.min(), progress)
        now = self.state()
        wrong = [name for name in _REPRODUCED if [one[name] for one in now] != [one[name] for one in state]]
        if wrong:
            raise EnvironmentFault(
                f"The environments replayed {len(actions)} steps but did not come to the same place "
                f"({', '.join(wrong)} differ). Were they made with the same id, options and versions? "
                "An environment whose reset(seed=...) does not forget its past cannot be resumed exactly."
            )
        return self._obs.copy()

    def _replay(self, actions: Values, starts: Values, progress: Callable[[int, int], None] | None) -> None:
        """Step through the log; environment i joins with its seeded reset at row ``starts[i]``, so all end together."""
        everyone = np.ones(self.num_envs, bool)
        self._obs = self._stepper.reset(everyone, self._seeds(everyone))
        for row in range(len(actions) + 1):
            joining = starts == row
            if row and joining.any():
                self._obs[joining] = self._stepper.reset(joining, self._seeds(joining))
                for counter in (self._life, self._game, self._length):
                    counter[joining] = 0
            if row < len(actions):
                self._stepper.send(self._check(actions[row]))
                raw = self._stepper.recv()
                self._obs = raw.obs
                self._count(raw)
                if progress is not None:
                    progress(row + 1, len(actions))

    def render(self) -> Values:
        """RGB picture ``[H, W, 3]`` of environment 0 as it is now."""
        return self._stepper.render()

    def close(self) -> None:
        """Release processes and simulators."""
        self._stepper.close()


def _digest(obs: Values) -> str:
    """A short name for what an environment shows."""
    return hashlib.blake2b(np.ascontiguousarray(obs).tobytes(), digest_size=16).hexdigest()
