"""Intrinsic rewards for Stable-Baselines3: on-policy by a callback, off-policy by a callback and a replay buffer."""

from mmrs.adapters.sb3.off_policy import BonusReplayBuffer, ReplayBonusCallback
from mmrs.adapters.sb3.on_policy import BonusCallback

__all__ = ["BonusCallback", "BonusReplayBuffer", "ReplayBonusCallback"]
