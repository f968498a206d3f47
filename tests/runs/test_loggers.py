"""TensorBoard gets the numbers of each row; the record is a sink too. W&B: see `test_wandb`."""

from __future__ import annotations

import pytest

from mmrs.runs.folder import RunFolder
from mmrs.runs.loggers import JsonlSink, TensorBoardSink
from mmrs.runs.metrics_log import MetricsFile, read_metrics

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
