"""Intrinsic rewards for exploration that provably reach the learner."""
