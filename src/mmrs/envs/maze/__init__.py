"""Mazes with portals, and the empty gridworld: mazes, their generator, Gymnasium environments, pictures."""
