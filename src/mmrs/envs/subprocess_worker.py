"""The worker process of `make_subproc_envs`: makes environments, answers requests, shares arrays with its owner."""

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

from mmrs.envs.async_envs import ignore_signals
from mmrs.envs.base import ActionCheck, EnvStep, Episodes, ResumableVectorEnv, Values
from mmrs.errors import EnvError

STEP, CALL = b"s", b"c"
"""Requests: one byte through the pipe. The name and the arguments of a method follow `CALL`. The arrays of a
step are in shared memory."""
OBS_READY, DONE, RESULT, RAISED = b"o", b"d", b"m", b"r"
"""Answers: observations are ready to act on; the request is done; it is done, and its result follows; it raised the
exception that follows. A step answers `OBS_READY` before it is counted, so that the policy acts meanwhile, and then one
of the others."""
SPIN_SECONDS = 0.002
"""How long a worker polls for the next request before it blocks: to wake a process takes a tenth of a step."""


@dataclass(frozen=True)
class SharedLayout:
    """Layout of a step's arrays in the memory that both processes share."""

    num_envs: int
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def shapes(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shapes and types of a step's arrays: observations, actions, rewards, terminated, truncated."""
        obs, action = self.observation_space, ActionCheck(self.action_space, self.num_envs)
        one = (self.num_envs,)
        seen = ((*one, *(obs.shape or ())), np.dtype(obs.dtype))
        rest = [(one, np.dtype(kind)) for kind in (np.float32, bool, bool)]
        return [seen, (action.shape, action.dtype), *rest]

    def arrays(self, memory: Any) -> list[Values]:
        """The arrays as views of the shared memory."""
        found, offset = [], 0
        for shape, dtype in self.shapes():
            found.append(np.ndarray(shape, dtype, memory, offset))
            offset += _aligned(shape, dtype)
        return found

    def size(self) -> int:
        """Bytes of all arrays."""
        return sum(_aligned(shape, dtype) for shape, dtype in self.shapes())


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of an array, up to the next line of the processor's cache."""
    return -(-math.prod(shape) * dtype.itemsize // 64) * 64


def send_message(pipe: Connection, tag: bytes, payload: Any = None) -> None:
    """Send one byte, then the pickled payload if there is one."""
    pickled = None if payload is None else pickle.dumps(payload)  # first: if it fails, nothing is sent
    os.write(pipe.fileno(), tag)
    if pickled is not None:
        pipe.send_bytes(pickled)


def recv_message(pipe: Connection, with_payload: Sequence[bytes]) -> tuple[bytes, Any]:
    """Receive one byte, then the payload if it is one of those that have one."""
    tag = os.read(pipe.fileno(), 1)
    if not tag:
        raise EOFError
    return tag, pipe.recv() if tag in with_payload else None


def worker_main(
    make: Callable[[], ResumableVectorEnv], layout: SharedLayout, memory: Any, pipe: Connection, owner_pipe: Connection
) -> None:
    """Make environments and answer requests until the owner is gone."""
    ignore_signals()
    # Objects that the owner has discarded, such as CUDA graphs, must not be finalized in this process: it would abort.
    gc.freeze()
    gc.enable()
    owner_pipe.close()  # this copy would keep the pipe open after the owner's end
    threading.Thread(target=_exit_with_owner, args=(pipe.fileno(),), daemon=True).start()
    worker = _WorkerEnvs(layout, memory, pipe)
    requests = select.poll()
    requests.register(pipe.fileno(), select.POLLIN)
    try:
        send_message(pipe, *_outcome(worker.make, make))
        while True:
            _poll_then_block(requests)
            request, call = recv_message(pipe, with_payload=(CALL,))
            send_message(pipe, *(_outcome(worker.step) if request == STEP else _outcome(worker.call, *call)))
    except (EOFError, OSError):
        return


def _exit_with_owner(pipe: int) -> None:
    """Exit as soon as the owner is gone, whatever the worker is doing: it may hold a lock of the owner's.

    Workers that were started later hold this pipe open too. The last one exits first, then the one before it.
    """
    hang_up = select.poll()
    hang_up.register(pipe, 0)  # a closed other end is reported even with an empty mask
    hang_up.poll()
    os._exit(1)


def _poll_then_block(requests: select.poll) -> None:
    """Poll for a request for a while, then sleep until there is one."""
    until = time.perf_counter() + SPIN_SECONDS
    while not requests.poll(0):
        os.sched_yield()  # to a process that works, where there are fewer cores than processes
        if time.perf_counter() > until:
            requests.poll()
            return


class _WorkerEnvs:
    """The environments of a worker, and the memory shared with the owner."""

    def __init__(self, layout: SharedLayout, memory: Any, pipe: Connection) -> None:
        self.obs, self.actions, *self.outputs = layout.arrays(memory)
        self.pipe = pipe
        self.envs: Any = None

    def make(self, make: Callable[[], ResumableVectorEnv]) -> None:
        """Make the environments."""
        self.envs = make()

    def step(self) -> tuple[Values, Episodes] | None:
        """Step with the shared actions; returns true last states and ended episodes, or None if none ended."""
        self.envs.send(self.actions.copy())
        self.obs[...] = self.envs.recv_obs()
        send_message(self.pipe, OBS_READY)
        step: EnvStep = self.envs.recv()
        for output, values in zip(self.outputs, (step.reward, step.terminated, step.truncated), strict=True):
            output[...] = values
        return (step.final_obs, step.episodes) if len(step.final_obs) else None

    def call(self, name: str, args: tuple[Any, ...]) -> Any:
        """Call any other method of the environments."""
        return getattr(self.envs, name)(*args)


def _outcome(function: Callable[..., Any], *args: Any) -> tuple[bytes, Any]:
    """Tag and payload of the answer: what a call returned or raised."""
    try:
        value = function(*args)
        return (DONE, None) if value is None else (RESULT, value)
    except Exception as error:
        return RAISED, (_picklable(error), traceback.format_exc())


def _picklable(error: Exception) -> Exception:
    """The error itself, or, if it cannot be pickled, one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return EnvError(f"{type(error).__name__}: {error} (line {at.lineno} of {at.filename}, in {at.name})")
    return error
