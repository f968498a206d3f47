"""The first signal asks, the second ends; exit codes are what shells expect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmrs.experiments import signals
from mmrs.experiments.signals import StopSignals, resume_hint

# The module on its own: with the package would come torch, and seconds of imports.
CODE = f"""
import sys, time
sys.path.append({str(Path(signals.__file__).parent)!r})
from signals import StopSignals
with StopSignals() as stop:
    print("ready", flush=True)
    while not stop.requested:
        time.sleep(0.01)
    print("saving", flush=True)
    if len(sys.argv) > 1:
        time.sleep(60)
    print("saved", flush=True)
sys.exit(stop.exit_code)
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CODE, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_lets_the_run_save(number, code):
    child = start()
    child.send_signal(number)
    out, err = child.communicate(timeout=20)
    assert out == "saving\nsaved\n"
    assert child.returncode == code
    assert "saving after this update" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_ends_at_once(number, code):
    child = start("hang")
    child.send_signal(number)
    assert child.stdout.readline() == "saving\n"
    began = time.monotonic()
    child.send_signal(number)
    out, err = child.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert (out, child.returncode) == ("", code)
    assert "last checkpoint is untouched" in err


def test_no_signal_no_code_and_the_old_handlers_come_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopSignals() as stop:
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert (stop.requested, stop.exit_code) == (False, 0)


def test_in_process(capfd):
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        assert stop.requested
    assert stop.exit_code == 143
    assert "SIGTERM" in capfd.readouterr().err


def test_the_hint_can_be_pasted():
    assert "mmrs train --resume runs/x" in resume_hint("runs/x", 7)
