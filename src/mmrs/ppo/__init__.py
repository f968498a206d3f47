"""Learners and the loops that drive them."""
