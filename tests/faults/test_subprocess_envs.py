"""A run with games in subprocesses: they end with the run, and not before it has saved."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from mmrs.storage import checkpoint as store

pytestmark = pytest.mark.timeout(120)
SUBPROCESSES = ["--env.num-envs", "2", "--env.vectorization", "async", "--env.groups", "2"]
TINY = ["--env", "Alien", "--bonus", "none", "--num-steps", "16", "--device", "cpu", *SUBPROCESSES]


@pytest.fixture
def start(tmp_path):
    """Starts runs, and kills what is left of them after the test."""
    started = []

    def start(*options):
        command = [sys.executable, "-m", "mmrs.cli", "train", *TINY, "--root", str(tmp_path), "--name", "run", *options]
        started.append(subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for run in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()


def rows(root):
    path = root / "run" / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def group_is_gone(pid):
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_saves_the_run(number, start, tmp_path):
    """As a scheduler or a terminal sends it."""
    run = start()
    until(lambda: len(rows(tmp_path)) > 1)
    assert len(children(run.pid)) == 2
    os.killpg(run.pid, number)
    _, printed = run.communicate(timeout=60)
    assert run.returncode == 128 + number, printed
    assert store.load(tmp_path / "run" / "checkpoints")[0] == rows(tmp_path)[-1]["step"]
    until(lambda: group_is_gone(run.pid))


def test_a_game_that_dies_ends_the_run_and_names_what_is_left(start, tmp_path):
    run = start("--checkpoint-every", "1")
    until(lambda: len(rows(tmp_path)) > 1)
    os.kill(children(run.pid)[1], signal.SIGKILL)
    _, printed = run.communicate(timeout=60)
    assert run.returncode not in (0, None)
    assert "environment 1 died with exit code -9" in " ".join(printed.split())
    assert "checkpoint" in printed
    assert store.load(tmp_path / "run" / "checkpoints")[0] == rows(tmp_path)[-1]["step"]
    until(lambda: group_is_gone(run.pid))


@pytest.mark.slow
def test_a_run_that_is_killed_takes_its_games_along(start, tmp_path):
    run = start()
    until(lambda: rows(tmp_path))
    run.kill()
    run.communicate(timeout=60)
    until(lambda: group_is_gone(run.pid))


def test_compared_runs_may_have_games_in_subprocesses_too(tmp_path):
    """Their workers read requests in a thread, which a fork must not wait for."""
    options = ["--compare", "ppo", "--steps", "64", "--root", str(tmp_path), "--name", "both", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "mmrs.cli", "train", *TINY, *options],
        timeout=90,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("both/*/metrics.jsonl"))


SUSPENDED = """
    import numpy as np
    from mmrs.envs.subprocess_envs import make_subproc_envs
    from tests.support.envs import Busy, of
    (envs,) = make_subproc_envs([of(Busy)], step_timeout=2.0)
    envs.reset(0)
    while True:
        envs.send(np.array([0]))
        while {polled} and not envs.poll():
            pass
        envs.recv()
        print(flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("polled", [True, False])
def test_suspension_does_not_count_for_the_time_limit(polled):
    code = textwrap.dedent(SUSPENDED.format(polled=polled))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": Path(__file__).parents[2]}
    run = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **options)
    run.stdout.readline()
    time.sleep(0.1)  # in the middle of the next step
    os.killpg(run.pid, signal.SIGSTOP)
    time.sleep(3.0)
    os.killpg(run.pid, signal.SIGCONT)
    for _ in range(3):
        run.stdout.readline()
    assert run.poll() is None, run.stderr.read()
    run.kill()
    run.communicate()
