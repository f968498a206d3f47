"""Environments in subprocesses, one per group, which can be polled for the end of a step.

A slow reset of one group does not block the others. Processes, because their pipes can be polled; threads can only be
waited for.
"""

from __future__ import annotations

import ctypes
import gc
import math
import multiprocessing
import os
import select
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from mmrs.envs.async_envs import SLOW_CALL_FACTOR, kill_with_parent
from mmrs.envs.base import NO_EPISODES, ActionCheck, EnvStep, ResumableVectorEnv, Values
from mmrs.envs.subprocess_worker import (
    CALL,
    DONE,
    OBS_READY,
    RAISED,
    RESULT,
    STEP,
    SharedLayout,
    recv_message,
    send_message,
    worker_main,
)
from mmrs.errors import EnvError, InputError

POLL_SECONDS = 0.5
"""Longest wait for an answer before the time limit is checked again."""


def subprocesses_available() -> bool:
    """Whether this system can fork and poll a pipe, and this process is allowed to have children."""
    able = hasattr(select, "poll") and "fork" in multiprocessing.get_all_start_methods()
    return able and not multiprocessing.current_process().daemon


def make_subproc_envs(
    makers: Sequence[Callable[[], ResumableVectorEnv]], step_timeout: float = 30.0
) -> list[SubprocEnvs]:
    """Make one subprocess per maker; all makers must give environments with the same spaces and the same number."""
    with closing(makers[0]()) as example:
        layout = SharedLayout(example.num_envs, example.observation_space, example.action_space)
    made: list[SubprocEnvs] = []
    try:
        for make in makers:
            made.append(SubprocEnvs(make, layout, len(made) * layout.num_envs, step_timeout))
        for envs in made:
            envs.wait_ready()
    except BaseException:
        for envs in made:
            envs.close()
        raise
    return made


class SubprocEnvs:
    """`ResumableVectorEnv` that is made and stepped in a subprocess; use `make_subproc_envs` to make some.

    A subprocess that raises, dies or does not answer is an error that names its environments. It exits with its owner.
    """

    def __init__(
        self, make: Callable[[], ResumableVectorEnv], layout: SharedLayout, first_index: int, step_timeout: float
    ) -> None:
        self.num_envs = layout.num_envs
        self.observation_space, self.action_space = layout.observation_space, layout.action_space
        self._check = ActionCheck(layout.action_space, layout.num_envs)
        last = first_index + layout.num_envs - 1
        self._names = f"environments {first_index} to {last}" if last > first_index else f"environment {last}"
        self._timeout, self._waited, self._last_poll = step_timeout, 0.0, 0.0
        # A forked process starts at once; of what it inherits it uses only the imported modules.
        context = multiprocessing.get_context("fork")
        memory = context.RawArray(ctypes.c_char, layout.size())
        self._obs, self._actions, self._reward, self._terminated, self._truncated = layout.arrays(memory)
        self._pipe, worker_pipe = context.Pipe()
        arguments = (make, layout, memory, worker_pipe, self._pipe)
        self._process = context.Process(target=worker_main, args=arguments, daemon=True)
        collecting = gc.isenabled()
        gc.disable()  # the worker enables it once it has frozen what it inherits; see `worker_main`
        try:
            self._process.start()
        except OSError as error:
            raise EnvError(
                f"No process could be started for {self._names}: {error}. "
                "Without processes: --env.vectorization sync --env.groups 1."
            ) from error
        finally:
            if collecting:
                gc.enable()
        self._kill = kill_with_parent(self, [self._process])
        worker_pipe.close()
        self._answers = select.poll()
        self._answers.register(self._pipe.fileno(), select.POLLIN)
        self._in_flight = False
        self._next_obs: Values | None = None

    def wait_ready(self) -> None:
        """Wait until the environments are made."""
        self._recv_answer(DONE, timeout=SLOW_CALL_FACTOR * self._timeout)

    # --- steps ------------------------------------------------------------------------------------------------------

    def reset(self, seed: int) -> Values:
        """Start all environments afresh; environment i gets a seed derived from (seed, i). Returns ``[N, *obs]``."""
        return self._call("reset", seed)  # type: ignore[no-any-return]

    def step(self, actions: Values) -> EnvStep:
        """Step all environments with ``[N, *act]`` actions, checked against the action space first."""
        self.send(actions)
        return self.recv()

    def send(self, actions: Values) -> None:
        """Start a step; the caller may do something else until `recv`."""
        if self._in_flight:
            raise InputError("A step is already under way; call recv() first.")
        self._actions[...] = self._check(actions)
        self._in_flight, self._waited, self._last_poll = True, 0.0, time.monotonic()
        self._send_request(STEP)

    def poll(self) -> bool:
        """Whether `recv_obs` would return at once."""
        if self._next_obs is not None or self._answers.poll(0):
            return True
        if not self._in_flight:
            return False
        now = time.monotonic()
        # A longer gap means that all processes were suspended, or that the caller did not poll.
        self._waited += min(now - self._last_poll, POLL_SECONDS)
        self._last_poll = now
        if self._waited > self._timeout:
            raise self._timed_out(self._timeout)
        os.sched_yield()  # to a process that works, where there are fewer cores than processes
        return False

    def recv_obs(self) -> Values:
        """Wait for the step that `send` started: ``[N, *obs]``, what the agent sees next."""
        if not self._in_flight:
            raise InputError("No step is under way; call send() first.")
        if self._next_obs is None:
            self._recv_answer(OBS_READY, timeout=self._timeout)
            self._next_obs = self._obs.copy()
        return self._next_obs

    def recv(self) -> EnvStep:
        """The step that `send` started, waited for if need be."""
        obs = self.recv_obs()
        final_obs, episodes = self._recv_answer(DONE, timeout=self._timeout) or (obs[:0], NO_EPISODES)
        self._in_flight, self._next_obs = False, None
        return EnvStep(obs, self._reward.copy(), self._terminated.copy(), self._truncated.copy(), final_obs, episodes)

    # --- the rest ---------------------------------------------------------------------------------------------------

    def state(self) -> list[dict[str, Any]]:
        """One dictionary per environment with all that `restore` needs."""
        return self._call("state")  # type: ignore[no-any-return]

    def restore(self, state: Sequence[dict[str, Any]]) -> Values:
        """Bring freshly made environments exactly to where `state` was taken; returns the observation seen then."""
        return self._call("restore", state, timeout=math.inf)  # type: ignore[no-any-return]

    def render(self) -> Values:
        """RGB picture ``[H, W, 3]`` of environment 0 as it is now."""
        return self._call("render")  # type: ignore[no-any-return]

    def close(self) -> None:
        """Kill the process: it has nothing to save."""
        self._kill()
        self._pipe.close()

    def _call(self, name: str, *args: Any, timeout: float | None = None) -> Any:
        """Call a method of the environments in the subprocess."""
        if self._in_flight:
            raise InputError("A step is under way; call recv() first.")
        try:
            self._send_request(CALL, (name, args))
            return self._recv_answer(DONE, timeout=timeout or SLOW_CALL_FACTOR * self._timeout)
        except (KeyboardInterrupt, SystemExit):
            self.close()  # interrupted: the answer to come would be taken for that of the next call
            raise

    def _send_request(self, request: bytes, payload: Any = None) -> None:
        try:
            send_message(self._pipe, request, payload)
        except OSError as error:
            raise self._died() from error

    def _recv_answer(self, expected: bytes, timeout: float) -> Any:
        """The next answer of the process, within `timeout` seconds; an exception raised there is raised here."""
        polls = 0
        while not self._answers.poll(1000.0 * POLL_SECONDS):
            polls += 1  # polls are counted, not seconds: the clock goes on while all processes are suspended
            if polls * POLL_SECONDS >= timeout:
                raise self._timed_out(timeout)
        try:
            answer, payload = recv_message(self._pipe, with_payload=(RESULT, RAISED))
        except (EOFError, OSError) as error:
            raise self._died() from error
        except (KeyboardInterrupt, SystemExit):
            self.close()  # interrupted in the middle of an answer
            raise
        if answer == RAISED:
            self._in_flight, self._next_obs = False, None  # the exception ended the step
            raised, remote_traceback = payload
            raised.add_note(f"In the process of {self._names}:\n{remote_traceback}")
            raise raised
        if answer != expected and (answer, expected) != (RESULT, DONE):
            self._in_flight = False
            self.close()
            raise EnvError(
                f"The process of {self._names} sent the answer to another call: a call was interrupted before its "
                "answer came, for example by Ctrl-C. Make the environments anew."
            )
        return payload

    def _timed_out(self, timeout: float) -> EnvError:
        self._in_flight = False
        self.close()
        return EnvError(
            f"The process of {self._names} did not answer within {timeout:g} s and was killed. "
            "--env.step-timeout raises the limit."
        )

    def _died(self) -> EnvError:
        self._in_flight = False
        if not self._pipe.closed:
            self._process.join(timeout=1.0)  # the pipe of a process closes a moment before its exit code is known
        self.close()
        code = self._process.exitcode
        return EnvError(f"The process of {self._names} died with exit code {code} (-9: killed, -11: crash).")
