"""A process of the local engine: takes cells as lines of JSON on its input, answers with how each ended.

It dies with the sweep: when its input ends, nobody would hear the answer, and another sweep may want the run.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any, TextIO

from mmrs.sweeps.engines.base import run_task


def main() -> None:
    """Work until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints must not talk into the answers
    # A process forked from this one first closes `sys.stdin`, and would wait for whoever reads it.
    requests, sys.stdin = os.fdopen(os.dup(0)), open(os.devnull)  # noqa: PTH123, SIM115 (for good)
    jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, jobs), daemon=True).start()
    while True:
        job = jobs.get()
        answers.write(json.dumps(run_task(**job)) + "\n")


def _listen(requests: TextIO, jobs: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in requests:
        jobs.put(json.loads(line))
    os._exit(0)  # at once, in the middle of anything: run folders are made for that


if __name__ == "__main__":
    main()
