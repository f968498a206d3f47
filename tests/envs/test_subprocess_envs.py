"""Environments in subprocesses that can be polled: the same steps as in this process, and every fault is reported."""

import fcntl
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.support.envs import Slow, Troubled, of

from mmrs.envs.registry import make_envs
from mmrs.envs.subprocess_envs import make_subproc_envs
from mmrs.errors import EnvError, InputError

pytestmark = pytest.mark.timeout(60)
ROOT = Path(__file__).parents[2]
MAKERS = {
    "Breakout": lambda i: partial(make_envs, "Breakout", 2, sticky=0.25, reseed_every=60, first_index=i),
    "CartPole-v1": lambda i: partial(make_envs, "CartPole-v1", 2, reseed_every=40, first_index=i),
    "Pendulum-v1": lambda i: partial(make_envs, "Pendulum-v1", 2, reseed_every=40, first_index=i),
    "rooms": lambda i: partial(make_envs, "mmrs/KeyRooms-v0", 2, first_index=i),
}


@pytest.fixture
def made():
    """Makes environments, and closes them all after the test."""
    all_made = []

    def make(*makers, **options):
        all_made.extend(make_subproc_envs(makers, **options))
        return all_made[-len(makers) :]

    yield make
    for envs in all_made:
        envs.close()


@pytest.mark.parametrize("name", MAKERS)
def test_they_step_exactly_as_in_this_process(name, made):
    make = MAKERS[name]
    here, there = [make(0)(), make(2)()], made(make(0), make(2))
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a.reset(2), b.reset(2))
    ended = 0
    for _ in range(250):
        for a, b in zip(here, there, strict=True):
            actions = np.array([a.action_space.sample() for _ in range(2)])
            b.send(actions)
            one, other = a.step(actions), b.recv()
            for field in ("obs", "reward", "terminated", "truncated", "final_obs"):
                np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
                assert getattr(one, field).dtype == getattr(other, field).dtype
            assert one.episodes == other.episodes
            ended += len(one.episodes.game_returns)
    assert ended or name == "rooms"
    again = made(make(0), make(2))
    for a, b, c in zip(here, there, again, strict=True):
        c.restore(b.state())
        for _ in range(20):
            actions = np.array([a.action_space.sample() for _ in range(2)])
            np.testing.assert_array_equal(c.step(actions).obs, a.step(actions).obs)


def test_what_was_received_stays_as_it_was(made):
    (envs,) = made(MAKERS["Breakout"](0))
    envs.reset(0)
    first = envs.step(np.ones(2, int))
    kept = first.obs.copy(), first.reward.copy()
    for _ in range(30):
        last = envs.step(np.array([2, 3]))
    assert not np.array_equal(last.obs, kept[0])
    np.testing.assert_array_equal(first.obs, kept[0])
    np.testing.assert_array_equal(first.reward, kept[1])


def test_a_slow_group_can_be_polled_and_does_not_block_the_others(made):
    slow, quick = made(of(Slow), of(Slow, 1))
    for envs in (slow, quick):
        envs.reset(0)
    slow.send(np.array([4]))
    assert slow.poll() is False
    for _ in range(3):
        quick.send(np.array([0]))
        while not quick.poll():
            pass
        assert quick.recv().reward == [0.0]
    assert slow.poll() is False
    assert slow.recv().reward == [4.0]


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (1, "the wheel came off"),
        (2, "process of environment 1 did not answer within 1 s"),
        (3, "process of environment 1 died with exit code -9"),
    ],
)
@pytest.mark.parametrize("polled", [False, True])
def test_a_fault_is_reported_within_the_time_limit(action, text, polled, made):
    envs = made(of(Troubled), of(Troubled, 1), step_timeout=1.0)[1]
    envs.reset(0)
    envs.step(np.array([0]))
    envs.send(np.array([action]))
    started = time.monotonic()
    with pytest.raises(EnvError, match=text):
        while polled and not envs.poll():
            pass
        envs.recv()
    assert time.monotonic() - started < 5
    if action == 1:  # it lives on, and so does its state
        assert envs.state()[0]["steps"] == 1
    else:
        assert not envs._process.is_alive()
        with pytest.raises(EnvError, match="died"):
            envs.state()


def test_an_exception_has_a_note_with_its_origin(made):
    (envs,) = made(of(Troubled))
    envs.reset(0)
    with pytest.raises(EnvError, match="the wheel came off") as raised:
        envs.step(np.array([1]))
    (note,) = raised.value.__notes__
    assert "environment 0" in note and "in step" in note and "the wheel came off" in note


class SlowToReset(Troubled):
    """Takes half a minute to reset."""

    def reset(self, *, seed=None, options=None):
        time.sleep(30)
        return super().reset()


def test_a_reset_that_hangs_is_reported_too(made):
    (envs,) = made(of(SlowToReset), step_timeout=0.5)
    with pytest.raises(EnvError, match="did not answer within 2 s"):
        envs.reset(0)
    assert not envs._process.is_alive()


@pytest.fixture
def interrupt_soon():
    """Interrupts the main thread after 0.1 s, as Ctrl-C does; also in a background job, where SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.main_thread().ident
    yield threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT)).start
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_wait_loses_nothing(made, interrupt_soon):
    (envs,) = made(of(Slow))
    envs.reset(0)
    envs.send(np.array([4]))
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        envs.recv()
    with pytest.raises(InputError, match="under way"):
        envs.state()
    assert envs.recv().reward == [4.0]
    assert envs.step(np.array([1])).reward == [1.0]
    assert envs.state()[0]["steps"] == 2


def test_an_interrupted_call_is_not_answered_by_another(made, interrupt_soon):
    (envs,) = made(of(SlowToReset))
    interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        envs.reset(1)
    with pytest.raises(EnvError, match="died"):
        envs.state()


def test_polls_between_steps_do_not_count_for_the_time_limit(made):
    (envs,) = made(of(Troubled), step_timeout=0.2)
    for _ in range(3):
        assert envs.poll() is False
        time.sleep(0.2)
    envs.reset(0)
    assert envs.poll() is False
    envs.step(np.array([0]))


def test_a_call_that_cannot_be_pickled_leaves_nothing_behind(made):
    (envs,) = made(of(Troubled))
    envs.reset(0)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        envs.restore([lambda: None])
    assert envs.state()[0]["steps"] == 0


def test_an_exception_that_cannot_be_pickled_is_reported_as_text(made):
    here = os.getpid()

    def only_here():
        if os.getpid() != here:
            raise type("Odd", (Exception,), {})("cannot be sent")
        return of(Troubled)()

    with pytest.raises(EnvError, match=r"Odd: cannot be sent \(line .*test_subprocess_envs.py, in only_here\)"):
        made(only_here)


def test_environments_that_cannot_be_made(made):
    with pytest.raises(InputError, match="Breakfast"):
        made(partial(make_envs, "Breakfast", 1))
    here = os.getpid()

    def only_here():
        if os.getpid() != here:
            raise InputError("the cartridge is gone")
        return of(Troubled)()

    with pytest.raises(InputError, match="the cartridge is gone"):
        made(only_here)


@pytest.mark.parametrize("wrong", [np.array([5]), np.array([-1]), np.array([0.5]), np.array([0, 0])])
def test_wrong_actions_are_refused_before_they_leave(wrong, made):
    (envs,) = made(of(Troubled))
    envs.reset(0)
    with pytest.raises(InputError, match="action"):
        envs.send(wrong)
    envs.step(np.array([0]))


def test_calls_in_the_wrong_order(made):
    (envs,) = made(of(Troubled))
    envs.reset(0)
    with pytest.raises(InputError, match="send"):
        envs.recv_obs()
    envs.send(np.array([0]))
    for call in (envs.state, lambda: envs.send(np.array([0])), lambda: envs.reset(0)):
        with pytest.raises(InputError, match="recv"):
            call()
    envs.recv()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_signals_of_a_terminal_or_a_scheduler_end_no_worker(number, made):
    (envs,) = made(of(Troubled))
    envs.reset(0)
    os.kill(envs._process.pid, number)
    envs.step(np.array([0]))
    envs.close()
    assert not envs._process.is_alive()
    envs.close()  # still safe


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "raise SystemExit(0)", "del envs, one"])
def test_no_worker_outlives_its_owner(end, tmp_path):
    """Not even if the owner was killed and could end nothing; and no worker keeps it from exiting."""
    script = f"""
        import os, signal
        from functools import partial
        from mmrs.envs.subprocess_envs import make_subproc_envs
        from mmrs.envs.registry import make_envs
        envs = make_subproc_envs([partial(make_envs, "CartPole-v1", 1)] * 3)
        for one in envs: one.reset(0)
        open({str(tmp_path / "pids")!r}, "w").write(" ".join(str(one._process.pid) for one in envs))
        {end}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, timeout=20)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    until = time.monotonic() + 10
    while any(running(pid) for pid in pids):
        assert time.monotonic() < until, "still there"
        time.sleep(0.05)


BUSY = """
    import fcntl, os, signal, time
    import numpy as np
    from mmrs.envs.subprocess_envs import make_subproc_envs
    from tests.support.envs import Endless, of
    held = open({lock!r}, "w")
    fcntl.flock(held, fcntl.LOCK_EX)
    envs = make_subproc_envs([of(Endless, i) for i in range(3)])
    for one in envs: one.reset(0)
    envs[2].send(np.array([0]))
    open({pids!r}, "w").write(" ".join(str(one._process.pid) for one in envs))
    time.sleep(0.1)
    {end}
"""


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "raise SystemExit(0)", "del envs, one"])
def test_not_even_busy_workers_outlive_their_owner_or_hold_its_locks(end, tmp_path):
    lock, pids = tmp_path / "lock", tmp_path / "pids"
    script = BUSY.format(lock=str(lock), pids=str(pids), end=end)
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, timeout=30, cwd=ROOT)
    until = time.monotonic() + 5
    # A process may count as ended while its last thread still has its files open: both are waited for.
    while any(running(int(pid)) for pid in pids.read_text().split()) or not can_be_locked(lock):
        assert time.monotonic() < until, "still there"
        time.sleep(0.05)


def test_a_process_that_closes_nothing_ends_all_the_same():
    script = """
        import multiprocessing
        from functools import partial
        from mmrs.envs.subprocess_envs import make_subproc_envs
        from mmrs.envs.registry import make_envs

        def nested():
            global kept
            kept = make_subproc_envs([partial(make_envs, "CartPole-v1", 1)])

        process = multiprocessing.get_context("fork").Process(target=nested)
        process.start()
        process.join()
        raise SystemExit(process.exitcode)
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False, timeout=20).returncode == 0


def test_a_copy_of_the_owner_ends_nothing(made):
    (envs,) = made(of(Troubled))
    envs.reset(0)
    if not (copy := os.fork()):
        envs.close()
        os._exit(0)
    os.waitpid(copy, 0)
    envs.step(np.array([0]))


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def can_be_locked(path):
    with path.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_worker_never_finalizes_what_its_owner_discarded(made, tmp_path):
    """CUDA graphs abort a forked process that does; here any finalizer outside the owner leaves a file."""
    owner, eager = os.getpid(), [True]

    class Discarded:
        def __init__(self):
            self.itself = self  # a cycle: only the garbage collector frees it

        def __del__(self):
            if os.getpid() != owner:
                (tmp_path / "finalized").touch()

    os.register_at_fork(after_in_child=lambda: eager and gc.set_threshold(1))
    gc.collect()
    for _ in range(20):
        Discarded()
    (envs,) = made(MAKERS["CartPole-v1"](0))
    eager.clear()
    envs.reset(0)
    assert gc.isenabled()
    assert not (tmp_path / "finalized").exists()
