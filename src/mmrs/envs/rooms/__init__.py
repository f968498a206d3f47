"""Room worlds: a plain Gymnasium environment, and a compiled twin that steps many at once."""
