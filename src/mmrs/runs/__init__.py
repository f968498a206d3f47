"""Training runs: configuration, folder, training, and the commands on a trained run."""
