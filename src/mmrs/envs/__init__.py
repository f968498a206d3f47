"""Environments of the package."""
