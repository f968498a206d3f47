"""Files that are whole or absent, locks, and checkpoints without pickle."""
