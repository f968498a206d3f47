"""Intrinsic rewards: one file per method."""

from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms, require_causal
from mmrs.rewards.counts import CountConfig, CountReward
from mmrs.rewards.jfi import JFI, JFIConfig
from mmrs.rewards.landmarks import LandmarkFairness
from mmrs.rewards.landmarks_config import LandmarkConfig
from mmrs.rewards.mmrs import MMRS
from mmrs.rewards.mmrs_config import PRESETS, MMRSConfig
from mmrs.rewards.re3 import RE3, RE3Config
from mmrs.rewards.registry import REWARDS, RewardEntry, make, register
from mmrs.rewards.ride import RIDE, RIDEConfig
from mmrs.rewards.rnd import RND, RNDConfig
from mmrs.rewards.wrappers import Scaled, Sum, Weighted

__all__ = [
    "JFI",
    "MMRS",
    "PRESETS",
    "RE3",
    "REWARDS",
    "RIDE",
    "RND",
    "CountConfig",
    "CountReward",
    "IntrinsicReward",
    "JFIConfig",
    "LandmarkConfig",
    "LandmarkFairness",
    "MMRSConfig",
    "Memory",
    "Metrics",
    "RE3Config",
    "RIDEConfig",
    "RNDConfig",
    "RewardEntry",
    "Scaled",
    "Sum",
    "Terms",
    "Weighted",
    "make",
    "register",
    "require_causal",
]
