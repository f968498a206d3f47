"""Suites of runs, brought to their ends on one machine or on many."""
