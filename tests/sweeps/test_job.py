"""One spec of a sweep: created, continued or skipped; a failure leaves its traceback; tables too."""

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
from mmrs.runs.train import run_to_completion
from mmrs.storage import checkpoint as store
from mmrs.sweeps.job import execute_run
from mmrs.sweeps.suites import SUITES, expand_suite

TIMES = {"seconds", "steps_per_second"}


def toy(steps=512, method="ppo", game="CartPole-v1"):
    (spec,) = expand_suite(SUITES["smoke"], steps=steps, seeds=1, games=[game], methods=[method])
    return replace(spec, config={**spec.config, "device": "cpu"})


def rows(run):
    return [{k: v for k, v in row.items() if k not in TIMES} for row in read_metrics(run / "metrics.jsonl").rows]


def events(run):
    return [row["event"] for row in read_metrics(run / "attempts.jsonl").rows]


def test_a_cell_is_created_and_then_skipped(tmp_path):
    spec = toy()
    run = tmp_path / spec.name
    assert execute_run(tmp_path, spec, "the command") == (spec.name, "finished", "")
    first = read_metrics(run / "attempts.jsonl").rows[0]
    assert (first["command"], first["version"]) == ("the command", "0.1.0")
    assert json.loads((run / "finished.json").read_text())["step"] == 512
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert execute_run(tmp_path, spec, "again").kind == "finished"
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    assert events(run) == ["start", "finished"]


def test_a_killed_cell_goes_on_and_ends_as_if_nothing_had_happened(tmp_path, monkeypatch):
    """From each state that a kill can leave: half made, before and after a checkpoint, before the mark at the end."""
    spec = toy()
    execute_run(tmp_path / "whole", spec, "")
    run = tmp_path / "cut" / spec.name
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
            execute_run(tmp_path / "cut", spec, "")
    monkeypatch.setattr(store, "save", save)

    def unmarked(folder, step):
        raise Killed

    monkeypatch.setattr(attempts, "mark_finished", unmarked)
    with pytest.raises(Killed):
        execute_run(tmp_path / "cut", spec, "")
    monkeypatch.setattr(attempts, "mark_finished", mark)
    assert not is_finished(run)
    assert execute_run(tmp_path / "cut", spec, "").kind == "finished"
    assert events(run) == ["start", "failed"] * 3 + ["start", "finished"]
    assert rows(run) == rows(tmp_path / "whole" / spec.name)


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    spec = toy()
    execute_run(tmp_path, spec, "")
    run = tmp_path / spec.name
    whole = rows(run)
    newest = store.checkpoints(run / "checkpoints")[-1].path / store.TENSORS
    newest.write_bytes(newest.read_bytes()[:-100])
    (run / "finished.json").unlink()
    with pytest.warns(store.DamagedCheckpointWarning):
        assert execute_run(tmp_path, spec, "").kind == "finished"
    assert rows(run) == whole
    assert read_metrics(run / "attempts.jsonl").rows[2]["step"] == 256


def test_a_failure_leaves_its_traceback_until_the_run_finishes(tmp_path):
    bad = toy(method="jfi")  # counts states, and CartPole has no Discrete ones
    outcome = execute_run(tmp_path, bad, "")
    assert outcome.kind == "failed"
    assert "Traceback" in outcome.text
    error = tmp_path / bad.name / "error.txt"
    assert error.read_text() == outcome.text
    good = toy()
    (tmp_path / good.name).mkdir()
    (tmp_path / good.name / "error.txt").write_text("an old one")
    assert execute_run(tmp_path, good, "").kind == "finished"
    assert not (tmp_path / good.name / "error.txt").exists()


def test_a_run_that_another_process_holds_is_left_alone(tmp_path):
    spec = toy()
    (tmp_path / spec.name).mkdir()
    with RunFolder(tmp_path / spec.name).exclusive():
        assert execute_run(tmp_path, spec, "").kind == "busy"
        with pytest.raises(RunBusyError):
            run_to_completion(replace(from_json(TrainConfig, spec.config), root=tmp_path))
    assert list((tmp_path / spec.name).rglob("*.json*")) == []


def test_a_run_is_not_continued_as_another_one(tmp_path):
    spec = toy(steps=128)
    execute_run(tmp_path, spec, "")
    (tmp_path / spec.name / "finished.json").unlink()
    config = replace(from_json(TrainConfig, spec.config), root=tmp_path)
    with pytest.raises(InputError, match="holds another run: steps is 128 there and 256 here"):
        run_to_completion(replace(config, steps=256))
    assert run_to_completion(replace(config, quiet=False, device="auto")) == 0  # how, not what


@pytest.mark.parametrize(("suite", "game"), [("gridworld", "GridWorld"), ("maze", "perfect 5")])
def test_tables_are_cells_too(tmp_path, suite, game):
    (spec,) = expand_suite(SUITES[suite], seeds=1, games=[game], methods=["jfi"])
    assert execute_run(tmp_path, spec, "").kind == "finished"
    run = tmp_path / spec.name
    assert json.loads((run / f"{suite}.json").read_text())
    before = (run / f"{suite}.json").stat().st_mtime_ns
    assert execute_run(tmp_path, spec, "").kind == "finished"
    assert (run / f"{suite}.json").stat().st_mtime_ns == before
    assert events(run) == ["start", "finished"]
