"""Atomic writes, locks, and checkpoints without pickle."""
