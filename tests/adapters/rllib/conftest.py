"""Ray listens on every network interface, so it gets a token. It reads these variables when imported."""

import os

os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", "0123456789abcdef" * 2)
