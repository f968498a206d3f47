"""Pure functions, each naming the equation it implements."""
