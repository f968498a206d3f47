"""The other side of `apart`: a process that makes environments and does what it is asked, and how the two talk."""

from __future__ import annotations

import gc
import math
import os
import pickle
import select
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from gymnasium import spaces

from mmrs.envs.base import ActionCheck, Episodes, Step, TrainingEnvs, Values
from mmrs.envs.process_lifecycle import leave_signals_to_owner
from mmrs.errors import EnvironmentFault

STEP, CALL = b"s", b"c"
"""Requests: a byte through the pipe, after which a call says what it calls. A step's arrays are in memory that both
processes see."""
SEEN, DONE, MORE, RAISED = b"o", b"d", b"m", b"r"
"""Answers: there are observations to act on; it is done; it is done and this is what it gave; it raised this. A step
gives the first before it is counted, so that the policy acts in the meantime, and one of the others after that."""
ALERT_SECONDS = 0.002
"""How long a process that has answered keeps looking for the next request: to be woken takes a tenth of a step."""


@dataclass(frozen=True)
class Kind:
    """What both processes must know to lay out a step."""

    num_envs: int
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def layout(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shapes and types of a step's arrays: observations, actions, rewards, terminated, truncated."""
        obs, action = self.observation_space, ActionCheck(self.action_space, self.num_envs)
        one = (self.num_envs,)
        seen = ((*one, *(obs.shape or ())), np.dtype(obs.dtype))
        rest = [(one, np.dtype(kind)) for kind in (np.float32, bool, bool)]
        return [seen, (action.shape, action.dtype), *rest]

    def arrays(self, memory: Any) -> list[Values]:
        """The arrays in memory that both processes see."""
        found, offset = [], 0
        for shape, dtype in self.layout():
            found.append(np.ndarray(shape, dtype, memory, offset))
            offset += _aligned(shape, dtype)
        return found

    def size(self) -> int:
        """Bytes of all arrays."""
        return sum(_aligned(shape, dtype) for shape, dtype in self.layout())


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of an array, up to the next line of the processor's cache."""
    return -(-math.prod(shape) * dtype.itemsize // 64) * 64


def say(pipe: Connection, what: bytes, more: Any = None) -> None:
    """A byte, and whatever else there is to it."""
    pickled = None if more is None else pickle.dumps(more)  # first: where it fails, nothing is said
    os.write(pipe.fileno(), what)
    if pickled is not None:
        pipe.send_bytes(pickled)


def heard(pipe: Connection, with_more: Sequence[bytes]) -> tuple[bytes, Any]:
    """A byte, and what else comes with it, if it is one that something comes with."""
    what = os.read(pipe.fileno(), 1)
    if not what:
        raise EOFError
    return what, pipe.recv() if what in with_more else None


def serve(make: Callable[[], TrainingEnvs], kind: Kind, memory: Any, pipe: Connection, owners: Connection) -> None:
    """Make environments and do what is asked of them, until the owner is gone."""
    leave_signals_to_owner()
    gc.freeze()  # what the owner has thrown away is not for this process to finalise
    owners.close()  # a copy, which would keep the pipe open after the owner's end
    threading.Thread(target=_end_with_owner, args=(pipe.fileno(),), daemon=True).start()
    served = _Served(kind, memory, pipe)
    requests = select.poll()
    requests.register(pipe.fileno(), select.POLLIN)
    try:
        say(pipe, *_outcome(served.make, make))
        while True:
            _look_out(requests)
            request, call = heard(pipe, with_more=(CALL,))
            say(pipe, *(_outcome(served.step) if request == STEP else _outcome(served.call, *call)))
    except (EOFError, OSError):
        return


def _end_with_owner(pipe: int) -> None:
    """Whatever this process is at when the owner has gone, nobody waits for it, and it may hold a lock of the owner's.

    One that was started later holds the pipe too, but nothing holds that of the last: it goes first.
    """
    hang_up = select.poll()
    hang_up.register(pipe, 0)  # that the other end is closed is told in any case
    hang_up.poll()
    os._exit(1)


def _look_out(requests: select.poll) -> None:
    """Look for a request for a while, then sleep until there is one."""
    until = time.perf_counter() + ALERT_SECONDS
    while not requests.poll(0):
        os.sched_yield()  # to one that works, where there are fewer cores than processes
        if time.perf_counter() > until:
            requests.poll()
            return


class _Served:
    """The environments in their process, and the memory that their owner sees."""

    def __init__(self, kind: Kind, memory: Any, pipe: Connection) -> None:
        self.obs, self.actions, *self.numbers = kind.arrays(memory)
        self.pipe = pipe
        self.envs: Any = None

    def make(self, make: Callable[[], TrainingEnvs]) -> None:
        """Make the environments."""
        self.envs = make()

    def step(self) -> tuple[Values, Episodes] | None:
        """Step with the actions that are there; returns true last states and what ended, if something did."""
        self.envs.send(self.actions.copy())
        self.obs[...] = self.envs.wait()
        say(self.pipe, SEEN)
        step: Step = self.envs.recv()
        for place, values in zip(self.numbers, (step.reward, step.terminated, step.truncated), strict=True):
            place[...] = values
        return (step.final_obs, step.episodes) if len(step.final_obs) else None

    def call(self, name: str, args: tuple[Any, ...]) -> Any:
        """Whatever else environments can do."""
        return getattr(self.envs, name)(*args)


def _outcome(function: Callable[..., Any], *args: Any) -> tuple[bytes, Any]:
    """What a call returns or raises, ready to be said."""
    try:
        value = function(*args)
        return (DONE, None) if value is None else (MORE, value)
    except Exception as error:
        return RAISED, (_picklable(error), traceback.format_exc())


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return EnvironmentFault(f"{type(error).__name__}: {error} (line {at.lineno} of {at.filename}, in {at.name})")
    return error
