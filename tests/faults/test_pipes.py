"""A reader that has seen enough is no error."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", [["list"], ["train", "--help"]])
def test_a_closed_pipe_ends_quietly(arguments):
    command = [sys.executable, "-m", "mmrs.cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # before anything is written
        told = process.stderr.read()
        assert process.wait(60) in (1, 141)  # 1 is how rich ends it
    assert told == ""
