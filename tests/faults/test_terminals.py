"""A real terminal: its output when a run is stopped, and the run when the terminal is closed."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from mmrs.storage import checkpoint as store

CTRL_C = b"\x03"
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
ON_ITS_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C and hang-ups come from it
from mmrs.cli import main
sys.exit(main())
"""


class Terminal:
    """A run of CartPole on a terminal of its own, 80 columns wide."""

    def __init__(self, root, *options):
        self.run = root / "a-folder-with-a-rather-long-name-that-no-cell-of-the-table-has-room-for" / "tty"
        command = [sys.executable, "-c", ON_ITS_TERMINAL, "train", "--env", "CartPole-v1", "--bonus", "none"]
        command += ["--steps", "20000000", "--root", str(self.run.parent), "--name", self.run.name, *options]
        self.keys, screen = pty.openpty()
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
        self.process = subprocess.Popen(
            command, stdin=screen, stdout=screen, stderr=screen, env=env, start_new_session=True
        )
        os.close(screen)
        self.shown = ""

    def until(self, words):
        """Read until the screen has shown something."""
        while words not in self.shown:
            self.shown += os.read(self.keys, 1 << 16).decode(errors="replace")

    def until_an_update(self):
        """Wait for the first row of metrics."""
        record = self.run / "metrics.jsonl"
        while not record.exists() or not record.stat().st_size:
            assert self.process.poll() is None, "it ended before its first update"
            time.sleep(0.02)

    def to_the_end(self):
        """Read until the process has ended; its exit code."""
        with contextlib.suppress(OSError):  # EIO: nobody writes to it any more
            while True:
                self.shown += os.read(self.keys, 1 << 16).decode(errors="replace")
        return self.process.wait(60)

    def saved(self):
        return store.load(self.run / "checkpoints")[0]


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def open_one(*options):
        opened.append(Terminal(tmp_path, *options))
        opened[0].until("steps/s")
        return opened[0]

    yield open_one
    for one in opened:
        one.process.kill()
        one.process.wait()
        with contextlib.suppress(OSError):
            os.close(one.keys)


def test_ctrl_c_is_answered_and_the_way_to_resume_can_be_copied(terminal):
    at = terminal()
    at.until_an_update()
    os.write(at.keys, CTRL_C)
    assert at.to_the_end() == 130
    assert "Ctrl-C: stopping after this update" in at.shown
    last = [line for line in at.shown.replace(SHOW_CURSOR, "").splitlines() if line.strip()][-1]
    assert last == f"tty: Stopped and saved at step {at.saved()}. Continue with: mmrs train --resume {at.run}"
    row = [line for line in at.shown.splitlines() if re.match(r".*tty .*stopped", line)][-1]
    assert "…" not in row


def test_the_second_ctrl_c_leaves_a_terminal_with_a_cursor(terminal):
    at = terminal("--ppo.epochs", "100000")  # an update that does not end
    os.write(at.keys, CTRL_C)
    at.until("Ctrl-C: stopping after this update")
    os.write(at.keys, CTRL_C)
    assert at.to_the_end() == 130
    assert at.shown.rindex(SHOW_CURSOR) > at.shown.rindex(HIDE_CURSOR)
    assert "Ended without saving" in at.shown


@pytest.mark.parametrize("where", ["sync", "async"])
def test_a_terminal_that_goes_away_stops_the_run_saved(terminal, where):
    at = terminal("--env.vectorization", where)
    at.until_an_update()
    os.close(at.keys)
    os.killpg(at.process.pid, signal.SIGHUP)  # as when the shell ends with its terminal: once more, to all processes
    assert at.process.wait(60) == 129
    rows = (at.run / "metrics.jsonl").read_text().splitlines()
    assert at.saved() == len(rows) * 1024
