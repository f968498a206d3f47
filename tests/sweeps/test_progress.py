"""The picture of a sweep: a few lines, however many runs."""

import io
import json
from dataclasses import replace

from rich.console import Console

from mmrs.sweeps.progress import SweepTable, last_row
from mmrs.sweeps.schedule import Schedule
from mmrs.sweeps.suites import SUITES, cells_of


def painted(table, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(table.draw())
    return console.file.getvalue()


def test_the_whole_paper_fits_on_a_screen(tmp_path):
    cells = [*cells_of(SUITES["atari"]), *cells_of(SUITES["bullet"])]
    schedule = Schedule(tmp_path, cells, retries=0)
    jobs = list(schedule.jobs.values())
    for job in jobs[:300]:
        job.state = "finished"
    for job in jobs[300:340]:
        job.state = "running"
    jobs[340].state = "failed"
    table = SweepTable("paper", schedule)
    text = painted(table)
    assert len(text.splitlines()) < 60
    assert "300/1040 finished | 40 running | 699 waiting | 1 failed" in text
    assert "all 26 environments" in text
    assert "and 16 more at work" in text


def test_a_suite_is_shown_by_environment_and_method(tmp_path):
    schedule = Schedule(tmp_path, cells_of(SUITES["smoke"], methods=["ppo", "rnd"]), retries=0)
    jobs = schedule.jobs
    jobs["CartPole-v1-ppo-0"].state = jobs["CartPole-v1-ppo-1"].state = "finished"
    jobs["mmrs-Maze2D-v0-rnd-0"].state = "failed"
    lines = [line.split() for line in painted(SweepTable("smoke", schedule)).splitlines()]
    assert lines[:3] == [
        ["finished", "ppo", "rnd"],
        ["CartPole-v1", "2/2", "0/2"],
        ["mmrs/Maze2D-v0", "0/2", "0/2", "✗1"],
    ]


def test_lines_tell_progress_and_each_failure_once(tmp_path):
    schedule = Schedule(tmp_path, cells_of(SUITES["smoke"], seeds=1, methods=["ppo"]), retries=0)
    console = Console(file=io.StringIO(), width=100)
    table = SweepTable("smoke", schedule, console=console)
    job = schedule.jobs["CartPole-v1-ppo-0"]
    job.error = "Traceback ...\nValueError: [bold]odd[/bold]\n"
    for _ in range(3):
        table._looked = -100.0
        table.refresh()
    said = console.file.getvalue().splitlines()
    assert said == [
        "CartPole-v1-ppo-0: will be tried again: ValueError: [bold]odd[/bold]",
        "smoke: 0/2 finished | 2 waiting",
    ]


def test_speed_counts_what_is_at_work_once(tmp_path):
    schedule = Schedule(tmp_path, cells_of(SUITES["smoke"], seeds=1, methods=["ppo"], steps=1000), retries=0)
    first, second = schedule.jobs.values()
    table = SweepTable("smoke", schedule)
    first.state = second.state = "running"
    table.rows = {first.cell.name: {"step": 1000}, second.cell.name: {"step": 500}}
    first.state = "finished"
    assert "1500/2000 steps" in table.summary()


def test_the_last_whole_row_of_a_record_is_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert last_row(path) == {}
    lines = [json.dumps({"step": step, "pad": "x" * 400}) for step in range(200)]
    path.write_text("\n".join(lines) + '\n{"step": 9')
    assert last_row(path)["step"] == 199
    path.write_text("7\n")
    assert last_row(path) == {}


def test_rows_of_an_unknown_shape_are_shown_without_a_word(tmp_path):
    schedule = Schedule(tmp_path, cells_of(SUITES["maze"], seeds=1, games=["plus 5"], methods=["jfi"]), retries=0)
    (job,) = schedule.jobs.values()
    job.state = "running"
    assert "plus 5" in painted(SweepTable("maze", schedule))
    job.cell = replace(job.cell, env="[red]plus 5")
    assert "[red]plus 5" in painted(SweepTable("maze", schedule))
