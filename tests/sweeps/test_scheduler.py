"""The loop of a sweep: bounds on retries, progress that resets them, runs that others hold or have finished."""

from collections import Counter, deque

import pytest

from mmrs.runs.folder import RunFolder
from mmrs.runs.history import mark_finished
from mmrs.sweeps import scheduler as module
from mmrs.sweeps.job import Outcome
from mmrs.sweeps.scheduler import MAX_WORKER_DEATHS, Scheduler
from mmrs.sweeps.suites import SUITES, expand_suite


class Scripted:
    """An engine whose attempts end as scripted, in the order of their runs."""

    def __init__(self, folder, script, slots=2):
        self.folder, self.script, self.slots = folder, {name: deque(ends) for name, ends in script.items()}, slots
        self.attempts, self.running, self.most, self.stopped = Counter(), [], 0, False

    def available_slots(self):
        return self.slots - len(self.running)

    def submit(self, spec):
        self.attempts[spec.name] += 1
        self.running.append(spec.name)
        self.most = max(self.most, len(self.running))

    def wait(self, seconds):
        ended, self.running = self.running, []
        return [self._end(name) for name in ended]

    def _end(self, name):
        if self.stopped:
            return Outcome(name, "stopped")
        kind = self.script[name].popleft() if self.script.get(name) else "finished"
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        if kind == "finished":
            mark_finished(path, 1)
        if kind.startswith("saved"):
            (path / "checkpoints" / f"ckpt-000001-{int(kind[5:]):012d}").mkdir(parents=True)
            return Outcome(name, "lost", "died after a save\n")
        return Outcome(name, "finished" if kind == "unseen" else kind, f"{kind}\n")

    def stop(self):
        self.stopped = True

    def close(self):
        pass


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(module, "BUSY_WAIT", 0.0)
    monkeypatch.setattr(module, "UNSEEN_WAIT", 0.0)


SPECS = expand_suite(SUITES["smoke"], methods=["ppo"], seeds=3)
FIRST = SPECS[0].name


def play(folder, script, retries=2, stopping=lambda: False):
    scheduler, engine = Scheduler(folder, SPECS, retries), Scripted(folder, script)
    scheduler.run(engine, stopping, lambda: None)
    return scheduler, engine


def test_all_runs_finish_and_no_more_are_running_than_there_are_places(tmp_path):
    scheduler, engine = play(tmp_path, {})
    assert scheduler.counts() == {"finished": 6}
    assert set(engine.attempts.values()) == {1}
    assert engine.most == 2


@pytest.mark.parametrize(("failures", "state"), [(2, "finished"), (3, "failed")])
def test_failures_are_retried_so_often_and_no_more(tmp_path, failures, state):
    scheduler, engine = play(tmp_path, {FIRST: ["failed"] * failures})
    assert scheduler.jobs[FIRST].state == state
    assert engine.attempts[FIRST] == 3
    assert scheduler.jobs[FIRST].error == ("" if state == "finished" else "failed\n")
    assert scheduler.counts()["finished"] == 5 + (state == "finished")


def test_deaths_do_not_count_as_failures_but_are_bounded(tmp_path):
    assert play(tmp_path / "a", {FIRST: ["lost"] * MAX_WORKER_DEATHS})[0].counts() == {"finished": 6}
    scheduler, engine = play(tmp_path / "b", {FIRST: ["lost"] * (MAX_WORKER_DEATHS + 1)})
    assert scheduler.jobs[FIRST].state == "failed"
    assert engine.attempts[FIRST] == MAX_WORKER_DEATHS + 1
    assert (tmp_path / "b" / FIRST / "error.txt").read_text() == "lost\n"


def test_a_checkpoint_between_deaths_resets_the_count(tmp_path):
    script = ["lost"] * MAX_WORKER_DEATHS + ["saved7"] + ["lost"] * (MAX_WORKER_DEATHS - 1)
    assert play(tmp_path, {FIRST: script})[0].counts() == {"finished": 6}


def test_a_run_that_reports_to_be_finished_must_be_seen_to_be(tmp_path):
    assert play(tmp_path / "a", {FIRST: ["unseen"] * 3})[0].counts() == {"finished": 6}
    scheduler, _ = play(tmp_path / "b", {FIRST: ["unseen"] * 100})
    assert scheduler.jobs[FIRST].state == "failed"
    assert "Do all machines see the same folder?" in scheduler.jobs[FIRST].error


def test_runs_that_are_finished_are_never_submitted(tmp_path):
    (tmp_path / FIRST).mkdir()
    mark_finished(tmp_path / FIRST, 1)
    scheduler, engine = play(tmp_path, {})
    assert (scheduler.skipped, engine.attempts[FIRST]) == (1, 0)
    assert scheduler.counts() == {"finished": 6}


def test_a_run_that_another_process_holds_waits_for_it(tmp_path):
    (tmp_path / FIRST).mkdir()
    scheduler, engine, ticks = Scheduler(tmp_path, SPECS, 0), Scripted(tmp_path, {}), []
    with RunFolder(tmp_path / FIRST).exclusive():

        def tick():
            ticks.append(engine.attempts[FIRST])
            if len(ticks) == 20:
                mark_finished(tmp_path / FIRST, 1)  # as the other process would

        scheduler.run(engine, lambda: False, tick)
    assert engine.attempts[FIRST] == 0
    assert scheduler.counts() == {"finished": 6}


def test_a_folder_that_cannot_be_locked_fails_one_run_alone(tmp_path):
    (tmp_path / FIRST / ".lock").mkdir(parents=True)
    scheduler, engine = play(tmp_path, {FIRST: ["failed"]}, retries=0)
    assert (scheduler.jobs[FIRST].state, engine.attempts[FIRST]) == ("failed", 1)
    assert scheduler.counts() == {"finished": 5, "failed": 1}


def test_stopping_submits_nothing_more(tmp_path):
    requested = iter([False, True])
    scheduler, engine = play(tmp_path, {}, stopping=lambda: next(requested, True))
    assert engine.attempts.total() == 2
    assert scheduler.counts() == {"finished": 2, "waiting": 4}
