"""Intrinsic rewards for Stable-Baselines3: a callback for on-policy, a callback and a buffer for off-policy."""

from mmrs.adapters.sb3.off_policy import BonusReplayBuffer, ReplayBonusCallback
from mmrs.adapters.sb3.on_policy import BonusCallback

__all__ = ["BonusCallback", "BonusReplayBuffer", "ReplayBonusCallback"]
