"""Experiments: what a command of the CLI runs."""
