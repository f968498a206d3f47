"""Intrinsic rewards for RLlib's new API stack."""

from mmrs.adapters.rllib.learner import BonusConnector, BonusLearner, with_bonus

__all__ = ["BonusConnector", "BonusLearner", "with_bonus"]
