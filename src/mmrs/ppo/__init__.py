"""PPO and its training loop."""
