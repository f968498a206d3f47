"""One cell of a sweep: created, continued or skipped; a failure leaves its traceback; tables too."""

import json
from dataclasses import replace

import pytest

from mmrs.errors import InputError, RunBusyError
from mmrs.runs import history as attempts
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import from_json
from mmrs.runs.folder import RunFolder
from mmrs.runs.history import is_finished
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.train import bring_to_end
from mmrs.storage import checkpoint as store
from mmrs.sweeps.job import run_cell
from mmrs.sweeps.suites import SUITES, cells_of

TIMES = {"seconds", "steps_per_second"}


def toy(steps=512, method="ppo", game="CartPole-v1"):
    (cell,) = cells_of(SUITES["smoke"], steps=steps, seeds=1, games=[game], methods=[method])
    return replace(cell, config={**cell.config, "device": "cpu"})


def rows(run):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(run / "metrics.jsonl").rows]


def events(run):
    return [row["event"] for row in read_metrics(run / "attempts.jsonl").rows]


def test_a_cell_is_created_and_then_skipped(tmp_path):
    cell = toy()
    run = tmp_path / cell.name
    assert run_cell(tmp_path, cell, "the command") == (cell.name, "finished", "")
    first = read_metrics(run / "attempts.jsonl").rows[0]
    assert (first["command"], first["version"]) == ("the command", "0.1.0")
    assert json.loads((run / "finished.json").read_text())["step"] == 512
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert run_cell(tmp_path, cell, "again").kind == "finished"
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    assert events(run) == ["start", "finished"]


def test_a_killed_cell_goes_on_and_ends_as_if_nothing_had_happened(tmp_path, monkeypatch):
    """From each state that a kill can leave: half made, before and after a checkpoint, before the mark at the end."""
    cell = toy()
    run_cell(tmp_path / "whole", cell, "")
    run = tmp_path / "cut" / cell.name
    run.mkdir(parents=True)  # half made
    (run / "checkpoints").mkdir()

    class Killed(BaseException):
        pass

    save, mark = store.save, attempts.mark_finished
    for last in (-1, 256):

        def stop(folder, step, tree, last=last):
            if step > last:
                raise Killed
            return save(folder, step, tree)

        monkeypatch.setattr(store, "save", stop)
        with pytest.raises(Killed):
            run_cell(tmp_path / "cut", cell, "")
    monkeypatch.setattr(store, "save", save)

    def unmarked(folder, step):
        raise Killed

    monkeypatch.setattr(attempts, "mark_finished", unmarked)
    with pytest.raises(Killed):
        run_cell(tmp_path / "cut", cell, "")
    monkeypatch.setattr(attempts, "mark_finished", mark)
    assert not is_finished(run)
    assert run_cell(tmp_path / "cut", cell, "").kind == "finished"
    assert events(run) == ["start", "failed"] * 3 + ["start", "finished"]
    assert rows(run) == rows(tmp_path / "whole" / cell.name)


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    cell = toy()
    run_cell(tmp_path, cell, "")
    run = tmp_path / cell.name
    whole = rows(run)
    newest = store.checkpoints(run / "checkpoints")[-1].path / store.TENSORS
    newest.write_bytes(newest.read_bytes()[:-100])
    (run / "finished.json").unlink()
    with pytest.warns(store.DamagedCheckpointWarning):
        assert run_cell(tmp_path, cell, "").kind == "finished"
    assert rows(run) == whole
    assert read_metrics(run / "attempts.jsonl").rows[2]["step"] == 256


def test_a_failure_leaves_its_traceback_until_the_run_finishes(tmp_path):
    bad = toy(method="jfi")  # counts states, and CartPole has no Discrete ones
    outcome = run_cell(tmp_path, bad, "")
    assert outcome.kind == "failed"
    assert "Traceback" in outcome.text
    error = tmp_path / bad.name / "error.txt"
    assert error.read_text() == outcome.text
    good = toy()
    (tmp_path / good.name).mkdir()
    (tmp_path / good.name / "error.txt").write_text("an old one")
    assert run_cell(tmp_path, good, "").kind == "finished"
    assert not (tmp_path / good.name / "error.txt").exists()


def test_a_run_that_another_process_holds_is_left_alone(tmp_path):
    cell = toy()
    (tmp_path / cell.name).mkdir()
    with RunFolder(tmp_path / cell.name).exclusive():
        assert run_cell(tmp_path, cell, "").kind == "busy"
        with pytest.raises(RunBusyError):
            bring_to_end(replace(from_json(TrainConfig, cell.config), root=tmp_path))
    assert list((tmp_path / cell.name).rglob("*.json*")) == []


def test_a_run_is_not_continued_as_another_one(tmp_path):
    cell = toy(steps=128)
    run_cell(tmp_path, cell, "")
    (tmp_path / cell.name / "finished.json").unlink()
    config = replace(from_json(TrainConfig, cell.config), root=tmp_path)
    with pytest.raises(InputError, match="holds another run: steps is 128 there, 256 was asked for"):
        bring_to_end(replace(config, steps=256))
    assert bring_to_end(replace(config, quiet=False, device="auto")) == 0  # how, not what


@pytest.mark.parametrize(("suite", "game"), [("gridworld", "GridWorld"), ("maze", "perfect 5")])
def test_tables_are_cells_too(tmp_path, suite, game):
    (cell,) = cells_of(SUITES[suite], seeds=1, games=[game], methods=["jfi"])
    assert run_cell(tmp_path, cell, "").kind == "finished"
    run = tmp_path / cell.name
    assert json.loads((run / f"{suite}.json").read_text())
    before = (run / f"{suite}.json").stat().st_mtime_ns
    assert run_cell(tmp_path, cell, "").kind == "finished"
    assert (run / f"{suite}.json").stat().st_mtime_ns == before
    assert events(run) == ["start", "finished"]
