"""Rewards in other libraries. Each module needs its own optional dependency and is imported by name."""
