"""The loop of a sweep: bounds on retries, progress that resets them, runs that others hold or have finished."""

from collections import Counter, deque

import pytest

from mmrs.runs.folder import RunFolder
from mmrs.runs.history import mark_finished
from mmrs.sweeps import schedule as module
from mmrs.sweeps.job import Outcome
from mmrs.sweeps.schedule import LOSSES, Schedule
from mmrs.sweeps.suites import SUITES, cells_of


class Scripted:
    """An engine whose tries end as written, each in the order of its cell."""

    def __init__(self, folder, script, places=2):
        self.folder, self.script, self.places = folder, {name: deque(ends) for name, ends in script.items()}, places
        self.tries, self.at_work, self.most, self.stopped = Counter(), [], 0, False

    def free(self):
        return self.places - len(self.at_work)

    def submit(self, cell):
        self.tries[cell.name] += 1
        self.at_work.append(cell.name)
        self.most = max(self.most, len(self.at_work))

    def wait(self, seconds):
        ended, self.at_work = self.at_work, []
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


CELLS = cells_of(SUITES["smoke"], methods=["ppo"], seeds=3)
FIRST = CELLS[0].name


def play(folder, script, retries=2, stopping=lambda: False):
    schedule, engine = Schedule(folder, CELLS, retries), Scripted(folder, script)
    schedule.run(engine, stopping, lambda: None)
    return schedule, engine


def test_all_runs_finish_and_no_more_are_at_work_than_there_are_places(tmp_path):
    schedule, engine = play(tmp_path, {})
    assert schedule.counts() == {"finished": 6}
    assert set(engine.tries.values()) == {1}
    assert engine.most == 2


@pytest.mark.parametrize(("failures", "state"), [(2, "finished"), (3, "failed")])
def test_failures_are_tried_again_so_often_and_no_more(tmp_path, failures, state):
    schedule, engine = play(tmp_path, {FIRST: ["failed"] * failures})
    assert schedule.jobs[FIRST].state == state
    assert engine.tries[FIRST] == 3
    assert schedule.jobs[FIRST].error == ("" if state == "finished" else "failed\n")
    assert schedule.counts()["finished"] == 5 + (state == "finished")


def test_deaths_do_not_count_as_failures_but_are_bounded(tmp_path):
    assert play(tmp_path / "a", {FIRST: ["lost"] * LOSSES})[0].counts() == {"finished": 6}
    schedule, engine = play(tmp_path / "b", {FIRST: ["lost"] * (LOSSES + 1)})
    assert schedule.jobs[FIRST].state == "failed"
    assert engine.tries[FIRST] == LOSSES + 1
    assert (tmp_path / "b" / FIRST / "error.txt").read_text() == "lost\n"


def test_a_checkpoint_between_deaths_starts_the_count_anew(tmp_path):
    script = ["lost"] * LOSSES + ["saved7"] + ["lost"] * (LOSSES - 1)
    assert play(tmp_path, {FIRST: script})[0].counts() == {"finished": 6}


def test_a_run_that_is_said_to_be_finished_must_be_seen_to_be(tmp_path):
    assert play(tmp_path / "a", {FIRST: ["unseen"] * 3})[0].counts() == {"finished": 6}
    schedule, _ = play(tmp_path / "b", {FIRST: ["unseen"] * 100})
    assert schedule.jobs[FIRST].state == "failed"
    assert "Do all machines see the same folder?" in schedule.jobs[FIRST].error


def test_runs_that_are_finished_are_never_handed_out(tmp_path):
    (tmp_path / FIRST).mkdir()
    mark_finished(tmp_path / FIRST, 1)
    schedule, engine = play(tmp_path, {})
    assert (schedule.skipped, engine.tries[FIRST]) == (1, 0)
    assert schedule.counts() == {"finished": 6}


def test_a_run_that_another_process_holds_waits_for_it(tmp_path):
    (tmp_path / FIRST).mkdir()
    schedule, engine, ticks = Schedule(tmp_path, CELLS, 0), Scripted(tmp_path, {}), []
    with RunFolder(tmp_path / FIRST).exclusive():

        def tick():
            ticks.append(engine.tries[FIRST])
            if len(ticks) == 20:
                mark_finished(tmp_path / FIRST, 1)  # as the other process would

        schedule.run(engine, lambda: False, tick)
    assert engine.tries[FIRST] == 0
    assert schedule.counts() == {"finished": 6}


def test_a_folder_that_cannot_be_locked_is_the_trouble_of_one_run(tmp_path):
    (tmp_path / FIRST / ".lock").mkdir(parents=True)
    schedule, engine = play(tmp_path, {FIRST: ["failed"]}, retries=0)
    assert (schedule.jobs[FIRST].state, engine.tries[FIRST]) == ("failed", 1)
    assert schedule.counts() == {"finished": 5, "failed": 1}


def test_stopping_hands_out_nothing_more(tmp_path):
    asked = iter([False, True])
    schedule, engine = play(tmp_path, {}, stopping=lambda: next(asked, True))
    assert engine.tries.total() == 2
    assert schedule.counts() == {"finished": 2, "waiting": 4}
