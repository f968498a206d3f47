"""Intrinsic rewards for exploration that provably reach the learner."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from mmrs.errors import MmrsError
from mmrs.recorder import RolloutRecorder
from mmrs.rewards import IntrinsicReward, Scaled, Sum, Weighted, make, register
from mmrs.rollout import Rollout

if _TYPE_CHECKING:
    from mmrs.api import Run, evaluate, load, resume, train, train_iter

__all__ = [
    "IntrinsicReward",
    "MmrsError",
    "Rollout",
    "RolloutRecorder",
    "Run",
    "Scaled",
    "Sum",
    "Weighted",
    "evaluate",
    "load",
    "make",
    "register",
    "resume",
    "train",
    "train_iter",
]
__version__ = "0.1.0"
_LATE = ("Run", "evaluate", "load", "resume", "train", "train_iter")


def __getattr__(name: str) -> object:
    """The names of `mmrs.api`, imported when they are first used: rewards alone need none of the trainer."""
    if name not in _LATE:
        raise AttributeError(f"module 'mmrs' has no attribute {name!r}")
    value: object = getattr(_import_module("mmrs.api"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
