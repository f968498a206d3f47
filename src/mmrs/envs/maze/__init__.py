"""Mazes with portals, and the empty gridworld: the world, its generator, its Gymnasium environment, its drawing."""
