"""Intrinsic rewards: one file a method."""
