"""Room worlds: a plain Gymnasium environment, and a compiled one that steps many at once."""
