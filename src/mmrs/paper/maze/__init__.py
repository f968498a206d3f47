"""The maze experiment: Q-learning with tabular rewards, in a table and on an interactive page."""
