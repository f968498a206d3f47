"""A closed pipe is no error and ends no run."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mmrs.runs.console import _ResilientStream
from mmrs.runs.history import is_finished
from mmrs.storage import checkpoint as store

MMRS = [sys.executable, "-m", "mmrs"]
STEPS = 8 * 1024


@pytest.mark.parametrize("arguments", [["list"], ["train", "--help"]])
def test_a_closed_pipe_ends_quietly(arguments):
    command = [*MMRS, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # before anything is written
        errors = process.stderr.read()
        assert process.wait(60) in (1, 141)  # 1 is how rich ends it
    assert errors == ""


def unread(*arguments: str, lines: int = 0) -> int:
    """The exit code of a command both of whose outputs lose their reader, as in `2>&1 | head`."""
    command = [*MMRS, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        return process.wait(120)


@pytest.mark.parametrize("lines", [0, 1])
def test_training_goes_on_without_a_reader(tmp_path, lines):
    options = ["--env", "CartPole-v1", "--bonus", "none", "--steps", str(STEPS), "--root", str(tmp_path)]
    assert unread("train", *options, "--name", "run", lines=lines) == 0
    assert is_finished(tmp_path / "run")
    assert store.load(tmp_path / "run" / "checkpoints")[0] == STEPS


def test_a_comparison_without_a_reader_has_its_page(tmp_path):
    options = ["--env", "CartPole-v1", "--compare", "ppo", "--steps", "2048", "--root", str(tmp_path), "--name", "both"]
    assert unread("train", *options) == 0
    assert store.load(tmp_path / "both" / "ppo-0" / "checkpoints")[0] == 2048
    assert (tmp_path / "both" / "index.html").exists()


def test_a_sweep_goes_on_without_a_reader(tmp_path):
    options = ["smoke", "--games", "CartPole-v1", "--methods", "ppo", "--seeds", "1", "--device", "cpu"]
    assert unread("sweep", *options, "--out", str(tmp_path)) == 0
    (run,) = (path.parent for path in tmp_path.glob("*/config.json"))
    assert is_finished(run)


def test_once_the_reader_is_gone_others_may_write_too():
    code = """
import sys
from pathlib import Path
from mmrs.runs.console import resilient_console
sys.stdin.read()  # until the reader is gone
resilient_console().print("a line of the display")
print("a word of a library", file=sys.stderr, flush=True)
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stderr=pipe) as process:
        process.stderr.close()
        process.stdin.close()
        assert process.wait(60) == 0


def test_texts_that_go_nowhere_cost_no_descriptors():
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    closed = io.StringIO()
    closed.close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for stream in (Gone(), closed):
        lost = _ResilientStream(stream)
        for _ in range(5):
            assert lost.write("text") == 4
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_an_error_nobody_reads_keeps_its_exit_code(tmp_path):
    assert unread("train", "--resume", os.fspath(tmp_path / "nothing")) == 2
