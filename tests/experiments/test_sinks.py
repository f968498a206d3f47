"""TensorBoard and W&B get the numbers of each row; the record is a sink too."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from mmrs.experiments.metrics import MetricsFile, read_metrics
from mmrs.experiments.run_folder import RunFolder
from mmrs.experiments.sinks import JsonlSink, TensorBoardSink, WandbSink

ROW = {"life_return": 1.5, "reward/global": 0.25, "update": 3, "text": "no number", "flag": True}


def scalars(run: RunFolder) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    events = EventAccumulator(str(run.tensorboard)).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_the_numbers_and_forgets_what_a_resume_repeats(tmp_path):
    pytest.importorskip("tensorboard")
    run = RunFolder.create(tmp_path, "a")
    sink = TensorBoardSink(run)
    for step in (10, 20, 30):
        sink.write(ROW, step)
    sink.close()
    assert scalars(run) == {
        name: [(s, ROW[name]) for s in (10, 20, 30)] for name in ("life_return", "reward/global", "update")
    }
    resumed = TensorBoardSink(run, resume_step=10)
    resumed.write({"life_return": 9.0}, 20)
    resumed.close()
    assert scalars(run)["life_return"] == [(10, 1.5), (20, 9.0)]


def test_the_record_as_a_sink(tmp_path):
    sink = JsonlSink(MetricsFile(tmp_path / "m.jsonl"))
    sink.write(ROW, 7)
    sink.close()
    sink.close()
    assert read_metrics(tmp_path / "m.jsonl").rows == [{"step": 7, **ROW}]


def test_wandb_is_asked_for_an_offline_run_that_can_be_resumed(tmp_path, monkeypatch):
    calls = {}

    class Run:
        def log(self, row, step):
            calls["log"] = (row, step)

        def finish(self):
            calls["finished"] = True

    stand_in = SimpleNamespace(init=lambda **options: calls.update(init=options) or Run())
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = RunFolder.create(tmp_path, "a")
    sink = WandbSink(run, {"seed": 1})
    sink.write(ROW, 10)
    sink.close()
    assert calls["init"]["mode"] == "offline"
    assert calls["init"]["dir"] == str(run.path)
    assert (calls["init"]["id"], calls["init"]["resume"], calls["init"]["config"]) == ("a", "allow", {"seed": 1})
    assert calls["log"] == ({"life_return": 1.5, "reward/global": 0.25, "update": 3.0}, 10)
    assert calls["finished"]


@pytest.mark.filterwarnings("ignore")
def test_wandb_works_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    run = RunFolder.create(tmp_path, "a")
    sink = WandbSink(run, {"seed": 1})
    sink.write(ROW, 10)
    sink.close()
    assert list(run.path.glob("wandb/offline-run-*"))
