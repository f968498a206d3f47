"""The paper's own experiments: gridworld, maze, bounds. Nothing but the command line and the demo imports them."""
