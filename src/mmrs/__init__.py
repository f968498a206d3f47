"""Intrinsic rewards for exploration that provably reach the learner."""

from mmrs.errors import MmrsError
from mmrs.recorder import RolloutRecorder
from mmrs.rewards import IntrinsicReward, Scaled, Sum, Weighted, make, register
from mmrs.rollout import Rollout

__all__ = [
    "IntrinsicReward",
    "MmrsError",
    "Rollout",
    "RolloutRecorder",
    "Scaled",
    "Sum",
    "Weighted",
    "make",
    "register",
]
__version__ = "0.1.0"
