"""Environments in a process of their own, which can be asked whether their step is done.

One that takes long, a game that starts anew, then holds up no other: whichever is done first is served first. Threads
cannot be watched like that, since to wait for one is all that Python lets them be asked.
"""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from mmrs.envs.base import ActionCheck, Episodes, Step, TrainingEnvs, Values
from mmrs.envs.process_lifecycle import end_with
from mmrs.envs.subprocess_worker import CALL, DONE, MORE, RAISED, SEEN, STEP, Kind, heard, say, serve
from mmrs.errors import EnvironmentFault, InputError

LOOK_SECONDS = 0.5
"""How long at most to wait before looking at the clock again."""
PATIENCE = 4
"""Making and resetting may load and compile: they get this many step timeouts."""


def can_be_apart() -> bool:
    """Whether this system can copy a process and watch a pipe, and this process may have others below it."""
    able = hasattr(select, "poll") and "fork" in multiprocessing.get_all_start_methods()
    return able and not multiprocessing.current_process().daemon


def apart(makers: Sequence[Callable[[], TrainingEnvs]], step_timeout: float = 30.0) -> list[EnvsApart]:
    """Environments of one kind, each maker's in a process of its own."""
    with closing(makers[0]()) as example:
        kind = Kind(example.num_envs, example.observation_space, example.action_space)
    made: list[EnvsApart] = []
    try:
        for make in makers:
            made.append(EnvsApart(make, kind, len(made) * kind.num_envs, step_timeout))
        for envs in made:
            envs.hello()
    except BaseException:
        for envs in made:
            envs.close()
        raise
    return made


class EnvsApart:
    """`TrainingEnvs` made and stepped in another process. `apart` makes them.

    A process that raises, dies or does not answer is an error that names its environments; it ends with its owner.
    """

    def __init__(self, make: Callable[[], TrainingEnvs], kind: Kind, first_index: int, step_timeout: float) -> None:
        self.num_envs = kind.num_envs
        self.observation_space, self.action_space = kind.observation_space, kind.action_space
        self._check = ActionCheck(kind.action_space, kind.num_envs)
        last = first_index + kind.num_envs - 1
        self._names = f"environments {first_index} to {last}" if last > first_index else f"environment {last}"
        self._timeout, self._waited, self._looked = step_timeout, 0.0, 0.0
        # A copy of this process is there in no time; of what it inherits it uses the modules alone.
        context = multiprocessing.get_context("fork")
        memory = context.RawArray(ctypes.c_char, kind.size())
        self._obs, self._actions, self._reward, self._terminated, self._truncated = kind.arrays(memory)
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(make, kind, memory, theirs, self._pipe), daemon=True)
        try:
            self._process.start()
        except OSError as error:
            raise EnvironmentFault(
                f"No process could be started for {self._names}: {error}. "
                "Without processes: --env.vectorization sync --env.groups 1."
            ) from error
        self._end = end_with(self, [self._process])
        theirs.close()
        self._answers = select.poll()
        self._answers.register(self._pipe.fileno(), select.POLLIN)
        self._under_way = False
        self._seen: Values | None = None

    def hello(self) -> None:
        """Wait until the environments are made."""
        self._answer(DONE, patience=PATIENCE * self._timeout)

    # --- steps ------------------------------------------------------------------------------------------------------

    def reset(self, seed: int) -> Values:
        """Start all environments afresh; environment i gets a seed derived from (seed, i). Returns ``[N, *obs]``."""
        return self._ask("reset", seed)  # type: ignore[no-any-return]

    def step(self, actions: Values) -> Step:
        """Step all environments with ``[N, *act]`` actions, checked against the action space first."""
        self.send(actions)
        return self.recv()

    def send(self, actions: Values) -> None:
        """Start a step; the caller may do something else until `recv`."""
        if self._under_way:
            raise InputError("A step is already under way; call recv() first.")
        self._actions[...] = self._check(actions)
        self._under_way, self._waited, self._looked = True, 0.0, time.monotonic()
        self._tell(STEP)

    def ready(self) -> bool:
        """Whether `wait` would return at once."""
        if self._seen is not None or self._answers.poll(0):
            return True
        if not self._under_way:
            return False
        now = time.monotonic()
        self._waited += min(now - self._looked, LOOK_SECONDS)  # nobody looked for longer: all were suspended
        self._looked = now
        if self._waited > self._timeout:
            raise self._late(self._timeout)
        os.sched_yield()  # to one that works, where there are fewer cores than processes
        return False

    def wait(self) -> Values:
        """Wait for the step that `send` started: ``[N, *obs]``, what the agent sees next."""
        if not self._under_way:
            raise InputError("No step is under way; call send() first.")
        if self._seen is None:
            self._answer(SEEN, patience=self._timeout)
            self._seen = self._obs.copy()
        return self._seen

    def recv(self) -> Step:
        """The step that `send` started, waited for if need be."""
        obs = self.wait()
        final_obs, episodes = self._answer(DONE, patience=self._timeout) or (obs[:0], Episodes())
        self._under_way, self._seen = False, None
        return Step(obs, self._reward.copy(), self._terminated.copy(), self._truncated.copy(), final_obs, episodes)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def state(self) -> list[dict[str, Any]]:
        """What `restore` needs, of each environment by itself."""
        return self._ask("state")  # type: ignore[no-any-return]

    def restore(self, state: Sequence[dict[str, Any]]) -> Values:
        """Bring freshly made environments exactly to where `state` was taken; returns the observation seen then."""
        return self._ask("restore", state, patience=math.inf)  # type: ignore[no-any-return]

    def render(self) -> Values:
        """RGB picture ``[H, W, 3]`` of environment 0 as it is now."""
        return self._ask("render")  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process, which has nothing to lose."""
        self._end()
        self._pipe.close()

    def _ask(self, name: str, *args: Any, patience: float | None = None) -> Any:
        if self._under_way:
            raise InputError("A step is under way; call recv() first.")
        try:
            self._tell(CALL, (name, args))
            return self._answer(DONE, patience=patience or PATIENCE * self._timeout)
        except (KeyboardInterrupt, SystemExit):
            self.close()  # interrupted: its answer, still to come, would be taken for that of the next call
            raise

    def _tell(self, request: bytes, more: Any = None) -> None:
        try:
            say(self._pipe, request, more)
        except OSError as error:
            raise self._died() from error

    def _answer(self, expected: bytes, patience: float) -> Any:
        """What the process says next, within so many seconds; what it raised is raised here."""
        looks = 0
        while not self._answers.poll(1000.0 * LOOK_SECONDS):
            looks += 1  # in looks, not by the clock: it goes on while all are suspended
            if looks * LOOK_SECONDS >= patience:
                raise self._late(patience)
        try:
            answer, more = heard(self._pipe, with_more=(MORE, RAISED))
        except (EOFError, OSError) as error:
            raise self._died() from error
        except (KeyboardInterrupt, SystemExit):
            self.close()  # interrupted in the middle of an answer
            raise
        if answer == RAISED:
            self._under_way, self._seen = False, None  # what was raised ended the step
            raised, told = more
            raised.add_note(f"In the process of {self._names}:\n{told}")
            raise raised
        if answer != expected and (answer, expected) != (MORE, DONE):
            self._under_way = False
            self.close()
            raise EnvironmentFault(
                f"The process of {self._names} answered another question than it was asked: a call was cut off in the "
                "middle, by Ctrl-C say. Make the environments anew."
            )
        return more

    def _late(self, patience: float) -> EnvironmentFault:
        self._under_way = False
        self.close()
        return EnvironmentFault(
            f"The process of {self._names} did not answer within {patience:g} s and was killed. "
            "--env.step-timeout gives it longer."
        )

    def _died(self) -> EnvironmentFault:
        self._under_way = False
        if not self._pipe.closed:
            self._process.join(timeout=1.0)  # a pipe closes a moment before its process can be asked how it ended
        self.close()
        code = self._process.exitcode
        return EnvironmentFault(f"The process of {self._names} died with exit code {code} (-9: killed, -11: crash).")
