"""Rewards in other engines: each file needs its own optional dependency, and is imported by name."""
