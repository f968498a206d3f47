"""The first signal stops the run, the second ends the process; exit codes are those of shells."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmrs.runs import signals
from mmrs.runs.signals import StopSignals, resume_hint

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


def start(*arguments: str, under: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [*under, sys.executable, "-c", CODE, *arguments]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_first_signal_lets_the_run_save(number, code):
    child = start()
    child.send_signal(number)
    out, err = child.communicate(timeout=20)
    assert out == "saving\nsaved\n"
    assert child.returncode == code
    assert "stopping after this update and saving." in err
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


@pytest.mark.parametrize("first", [signal.SIGHUP, signal.SIGINT])
def test_a_hang_up_is_never_the_second_signal(first):
    """The shell and the kernel may each send a signal for one closed terminal."""
    child = start("hang")
    child.send_signal(first)
    assert child.stdout.readline() == "saving\n"
    child.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    for _ in range(2 if first == signal.SIGHUP else 1):
        child.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    child.communicate(timeout=20)
    assert child.returncode == 143


def test_a_hang_up_that_was_ignored_stays_ignored():
    child = start(under=("nohup",))
    child.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.5)
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=20)
    assert (out, child.returncode) == ("saving\nsaved\n", 143)
    assert "SIGHUP" not in err


def test_a_reader_that_is_gone_does_not_keep_a_run_from_saving():
    child = start()
    child.stderr.close()
    child.send_signal(signal.SIGTERM)
    assert child.stdout.read() == "saving\nsaved\n"
    assert child.wait(20) == 143


def test_the_message_goes_to_a_live_view_and_has_the_time_left(capfd):
    shown = []
    with StopSignals(lambda text: shown.append(text) is None, lambda: 9.6):
        signal.raise_signal(signal.SIGINT)
    assert shown == [
        "Ctrl-C: stopping after this update (about 10 s left at the present pace) and saving. "
        "Ctrl-C again ends at once, without saving."
    ]
    assert capfd.readouterr().err == ""


def test_no_signal_no_code_and_the_old_handlers_come_back():
    handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in handled]
    with StopSignals() as stop:
        assert all(signal.getsignal(number) != old for number, old in zip(handled, before, strict=True))
    assert [signal.getsignal(number) for number in handled] == before
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
