"""Gymnasium environments in one worker process each; a worker that dies, raises or hangs is reported as an error.

The lifecycle of workers is here too: they exit with the process that owns them and leave signals to it.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing import connection
from multiprocessing.util import Finalize
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from mmrs.envs.base import BackendStep, Values, picture, reported_scalars
from mmrs.errors import EnvError

SLOW_CALL_FACTOR = 4
"""Making and resetting environments may load meshes and compile: such calls get this many step timeouts."""


class AsyncBackend:
    """`AsyncVectorEnv` with shared memory and a time limit on every step.

    Args:
        makers: One function per environment that makes it, run inside its worker.
        step_timeout: Seconds after which a worker that has not answered counts as hung.
        first_index: Number of environment 0 in the run, for messages.
    """

    def __init__(
        self, makers: Sequence[Callable[[], gym.Env[Any, Any]]], step_timeout: float = 30.0, first_index: int = 0
    ) -> None:
        owner = os.getpid()
        self._timeout, self._first_index = step_timeout, first_index
        self._envs = AsyncVectorEnv(
            [functools.partial(_make_in_worker, make, owner) for make in makers],
            shared_memory=True,
            autoreset_mode=AutoresetMode.SAME_STEP,
        )
        self._kill_workers = kill_with_parent(self, self._envs.processes)
        self.num_envs = self._envs.num_envs
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space

    def reset(self, mask: Values, seeds: Values) -> Values:
        """Seeded reset of the environments in the mask."""
        every_seed: list[int | None] = [None] * self.num_envs
        for index, seed in zip(np.flatnonzero(mask), seeds, strict=True):
            every_seed[index] = int(seed)
        # The key is left out for a full reset, so that environments which look at options see none.
        options = None if mask.all() else {"reset_mask": mask}
        self._watched(lambda: self._envs.reset_async(seed=every_seed, options=options))
        obs, _ = self._watched(lambda: self._envs.reset_wait(timeout=SLOW_CALL_FACTOR * self._timeout))
        return np.asarray(obs)[mask]

    def send(self, actions: Values) -> None:
        """Hand the actions to the workers."""
        self._watched(lambda: self._envs.step_async(actions))

    def recv(self) -> BackendStep:
        """Wait for all workers, at most the time limit."""
        obs, reward, terminated, truncated, info = self._watched(lambda: self._envs.step_wait(timeout=self._timeout))
        done = terminated | truncated
        last, infos = obs[:0], []
        if done.any():
            ended = np.flatnonzero(done)
            last = np.array([info["final_obs"][i] for i in ended], obs.dtype)
            infos = [_info_of_env(info.get("final_info", {}), int(i)) for i in ended]
        return BackendStep(obs, reward, terminated, truncated, done, done, last, infos)

    def render(self) -> Values:
        """Picture of environment 0."""
        frames = self._watched(self._envs.render)
        return picture(frames[0] if frames else None)

    def close(self) -> None:
        """Stop the workers; one that does not exit within the step timeout is killed."""
        if self._envs.closed:
            return
        try:
            self._envs.close(timeout=self._timeout)
        except Exception:
            self._kill()

    def _watched(self, call: Callable[[], Any]) -> Any:
        """Run a call to the workers. On any error kill them all and raise an error that names the one at fault."""
        try:
            return call()
        except Exception as error:
            if isinstance(error, EOFError | OSError) and not isinstance(error, TimeoutError):
                # The pipe of a process closes a moment before its exit code is known.
                closed = connection.wait([process.sentinel for process in self._envs.processes], timeout=1.0)
                for process in self._envs.processes:
                    process.join(timeout=1.0 if process.sentinel in closed else 0.0)
            exit_codes = [process.exitcode for process in self._envs.processes]
            silent = [i for i, pipe in enumerate(self._envs.parent_pipes) if pipe is not None and not pipe.poll()]
            raised = [i for i, pipe in enumerate(self._envs.parent_pipes) if pipe is None]
            self._kill()
            raise EnvError(self._explain(error, raised, exit_codes, silent)) from error

    def _explain(self, error: Exception, raised: list[int], exit_codes: list[int | None], silent: list[int]) -> str:
        dead = [i for i, code in enumerate(exit_codes) if code is not None and i not in raised]
        first = self._first_index
        if raised:
            return f"Environment {first + raised[0]} raised {type(error).__name__}: {error}"
        if isinstance(error, TimeoutError) or type(error).__name__ == "TimeoutError":
            who = first + silent[0] if silent else "?"
            return f"Environment {who} did not answer within {self._timeout:g} s and was killed."
        if dead:
            code = exit_codes[dead[0]]
            return f"The worker of environment {first + dead[0]} died with exit code {code} (-9: killed, -11: crash)."
        return f"A worker failed: {type(error).__name__}: {error}"

    def _kill(self) -> None:
        self._kill_workers()
        for pipe in self._envs.parent_pipes:
            if pipe is not None:
                pipe.close()
        self._envs.closed = True


def kill_with_parent(owner: object, processes: Sequence[Any]) -> Callable[[], object]:
    """Kill the processes when `owner` is collected, when Python exits, or when the returned function is called.

    At exit, Python and Gymnasium send SIGTERM, which `ignore_signals` disables. The exit priority makes this run first.
    """
    return Finalize(owner, _kill_processes, (processes, os.getpid()), exitpriority=10)


def _kill_processes(processes: Sequence[Any], owner: int) -> None:
    if os.getpid() == owner:  # a forked copy of the owner inherits this finalizer and must not run it
        for process in processes:
            process.kill()  # SIGKILL: a process that hangs inside a simulator handles no other signal
            process.join()


def ignore_signals() -> None:
    """Ignore SIGINT, SIGHUP and SIGTERM in a worker.

    Terminals and schedulers send them to all processes of a run. The owner decides what to do, and needs the
    environments to save a checkpoint.
    """
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)


def _make_in_worker(make: Callable[[], gym.Env[Any, Any]], owner: int) -> gym.Env[Any, Any]:
    """Make an environment. AsyncVectorEnv also makes one in the owner's process, to read its spaces."""
    if os.getpid() != owner:
        ignore_signals()
    return make()


def _info_of_env(final_info: dict[str, Any], index: int) -> dict[str, float]:
    """Undo the merging of info dictionaries: the scalars that environment `index` reported."""
    own = {key: values[index] for key, values in final_info.items() if f"_{key}" in final_info}
    return reported_scalars({key: value for key, value in own.items() if final_info[f"_{key}"][index]})
