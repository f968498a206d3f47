"""TensorBoard and metrics.jsonl get the metrics of each row. W&B: see `test_wandb`."""

from __future__ import annotations

import pytest

from mmrs.runs.folder import RunFolder
from mmrs.runs.loggers import JsonlLogger, TensorBoardLogger
from mmrs.runs.metrics_log import MetricsFile, read_metrics

ROW = {"episode_return": 1.5, "reward/global": 0.25, "update": 3, "text": "no number", "flag": True}


def scalars(run: RunFolder) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    events = EventAccumulator(str(run.tensorboard)).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_the_metrics_and_hides_what_a_resume_repeats(tmp_path):
    pytest.importorskip("tensorboard")
    run = RunFolder.create(tmp_path, "a")
    logger = TensorBoardLogger(run)
    for step in (10, 20, 30):
        logger.write(ROW, step)
    logger.close()
    assert scalars(run) == {
        name: [(s, ROW[name]) for s in (10, 20, 30)] for name in ("episode_return", "reward/global", "update")
    }
    resumed = TensorBoardLogger(run, resume_step=10)
    resumed.write({"episode_return": 9.0}, 20)
    resumed.close()
    assert scalars(run)["episode_return"] == [(10, 1.5), (20, 9.0)]


def test_metrics_jsonl_as_a_logger(tmp_path):
    logger = JsonlLogger(MetricsFile(tmp_path / "m.jsonl"))
    logger.write(ROW, 7)
    logger.close()
    logger.close()
    assert read_metrics(tmp_path / "m.jsonl").rows == [{"step": 7, **ROW}]
