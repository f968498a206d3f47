"""How many cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores of the process where the system tells (Linux), else of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
