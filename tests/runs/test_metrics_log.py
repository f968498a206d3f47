"""metrics.jsonl: one line per row, no half lines, only finite values, truncated exactly on resume."""

from __future__ import annotations

import json
import resource
import warnings

import pytest

from mmrs.errors import InputError, StorageError
from mmrs.runs.metrics_log import MetricsFile, Position, last_row, read_metrics, sample_metrics


def test_rows_come_back_and_are_there_before_the_file_is_closed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        for step in range(3):
            metrics.append({"step": step, "x": 0.1 * step, "name": "é\n"})
        assert read_metrics(path)[::2] == ([{"step": s, "x": 0.1 * s, "name": "é\n"} for s in range(3)], 0)
        assert metrics.position() == Position(3, path.stat().st_size)


def test_a_half_written_line_is_dropped_when_opened_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n{"st')
    assert read_metrics(path)[::2] == ([{"step": 1}, {"step": 2}], 1)
    with MetricsFile(path) as metrics:
        assert metrics.position() == Position(2, 24)
        metrics.append({"step": 3})
    assert read_metrics(path)[::2] == ([{"step": 1}, {"step": 2}, {"step": 3}], 0)


def test_bad_lines_are_counted_not_hidden(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"a": 1}\nnot json\n\n[1]\n{"a": 2}\n\xff\xfe\n' + b"[" * 100_000)
    assert read_metrics(path)[::2] == ([{"a": 1}, {"a": 2}], 4)


def test_resume_cuts_what_came_after_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        metrics.append({"step": 1})
        metrics.append({"step": 2})
        at = metrics.position()
        whole = path.read_bytes()
        metrics.append({"step": 3})
    with path.open("ab") as file:
        file.write(b'{"half')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with MetricsFile(path, resume_at=at) as metrics:
            assert path.read_bytes() == whole
            metrics.append({"step": 3})
    assert [row["step"] for row in read_metrics(path).rows] == [1, 2, 3]


@pytest.mark.parametrize("content", [b"", b'{"a": 1}\n', b'{"step": 1}\n{"step": 22', b'{"st":2}\n{"x":1}\n{"y":2}\n'])
def test_a_changed_file_gives_a_warning_and_keeps_its_whole_lines(tmp_path, content):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="does not hold the 2 rows"), MetricsFile(path, resume_at=Position(2, 24)) as m:
        m.append({"step": 3})
    record = read_metrics(path)
    assert record.bad_lines == 0
    assert record.rows[-1] == {"step": 3}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("nan")], object()])
def test_what_is_not_finite_json_is_refused_by_name(tmp_path, value):
    path = tmp_path / "metrics.jsonl"
    with MetricsFile(path) as metrics:
        metrics.append({"ok": 1})
        with pytest.raises(InputError, match=r"loss/policy is|row 1"):
            metrics.append({"ok": 1, "loss/policy": value})
    assert path.read_bytes() == b'{"ok": 1}\n'


def test_a_link_is_not_written_through(tmp_path):
    target = tmp_path / "precious"
    target.write_text("mine")
    (tmp_path / "metrics.jsonl").symlink_to(target)
    with pytest.raises(StorageError, match="cannot open"):
        MetricsFile(tmp_path / "metrics.jsonl")
    assert target.read_text() == "mine"


def test_a_disk_without_room_is_a_clear_error(tmp_path):
    path = tmp_path / "metrics.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with MetricsFile(path) as metrics:
        metrics.append({"step": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, before[1]))
        try:
            with pytest.raises(StorageError, match="Is the disk full"):
                metrics.append({"step": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert read_metrics(path).rows == [{"step": 1}]


def test_a_missing_record(tmp_path):
    with pytest.raises(StorageError, match="cannot read"):
        read_metrics(tmp_path / "none")


def test_the_last_whole_row_of_metrics_is_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert last_row(path) == {}
    lines = [json.dumps({"step": step, "pad": "x" * 400}) for step in range(200)]
    path.write_text("\n".join(lines) + '\n{"step": 9')
    assert last_row(path)["step"] == 199
    path.write_text("7\n")
    assert last_row(path) == {}


@pytest.mark.parametrize("count", [3, 5000])
def test_a_sample_has_the_first_and_the_last_row(tmp_path, count):
    path = tmp_path / "metrics.jsonl"
    assert sample_metrics(path, 16) == ([], 0, 0)
    path.write_text("".join(json.dumps({"step": step, "pad": "x" * 100}) + "\n" for step in range(count)) + '{"half')
    record = sample_metrics(path, 16)
    steps = [row["step"] for row in record.rows]
    assert (steps[0], steps[-1], record.bad_lines) == (0, count - 1, 1)
    assert len(steps) == min(count, 16)
    assert steps == sorted(set(steps))
