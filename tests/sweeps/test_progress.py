"""The display of a sweep: a few lines, however many runs."""

import io
from dataclasses import replace

from rich.console import Console

from mmrs.sweeps.progress import SweepTable
from mmrs.sweeps.scheduler import Scheduler
from mmrs.sweeps.suites import SUITES, expand_suite


def painted(table, width=100):
    console = Console(file=io.StringIO(), width=width)
    console.print(table.draw())
    return console.file.getvalue()


def test_the_whole_paper_fits_on_a_screen(tmp_path):
    specs = [*expand_suite(SUITES["atari"]), *expand_suite(SUITES["bullet"])]
    scheduler = Scheduler(tmp_path, specs, retries=0)
    jobs = list(scheduler.jobs.values())
    for job in jobs[:300]:
        job.state = "finished"
    for job in jobs[300:340]:
        job.state = "running"
    jobs[340].state = "failed"
    table = SweepTable("paper", scheduler)
    text = painted(table)
    assert len(text.splitlines()) < 60
    assert "300/1040 finished | 40 running | 699 waiting | 1 failed" in text
    assert "all 26 environments" in text
    assert "and 16 more running" in text


def test_a_suite_is_shown_by_environment_and_method(tmp_path):
    scheduler = Scheduler(tmp_path, expand_suite(SUITES["smoke"], methods=["ppo", "rnd"]), retries=0)
    jobs = scheduler.jobs
    jobs["CartPole-v1-ppo-0"].state = jobs["CartPole-v1-ppo-1"].state = "finished"
    jobs["mmrs-Maze2D-v0-rnd-0"].state = "failed"
    lines = [line.split() for line in painted(SweepTable("smoke", scheduler)).splitlines()]
    assert lines[:3] == [
        ["environment", "ppo", "rnd"],
        ["CartPole-v1", "2/2", "0/2"],
        ["mmrs/Maze2D-v0", "0/2", "0/2", "✗1"],
    ]


def test_lines_show_progress_and_each_failure_once(tmp_path):
    scheduler = Scheduler(tmp_path, expand_suite(SUITES["smoke"], seeds=1, methods=["ppo"]), retries=0)
    console = Console(file=io.StringIO(), width=100)
    table = SweepTable("smoke", scheduler, console=console)
    job = scheduler.jobs["CartPole-v1-ppo-0"]
    job.error = "Traceback ...\nValueError: [bold]odd[/bold]\n"
    for _ in range(3):
        table._last_poll = -100.0
        table.refresh()
    printed = console.file.getvalue().splitlines()
    assert printed == [
        "CartPole-v1-ppo-0: failed, will be retried: ValueError: [bold]odd[/bold]",
        "smoke: 0/2 finished | 2 waiting",
    ]


def test_speed_counts_what_is_running_once(tmp_path):
    scheduler = Scheduler(tmp_path, expand_suite(SUITES["smoke"], seeds=1, methods=["ppo"], steps=1000), retries=0)
    first, second = scheduler.jobs.values()
    table = SweepTable("smoke", scheduler)
    first.state = second.state = "running"
    table.rows = {first.spec.name: {"step": 1000}, second.spec.name: {"step": 500}}
    first.state = "finished"
    assert "1500/2000 steps" in table.summary()


def test_rows_of_an_unknown_shape_are_shown_without_an_error(tmp_path):
    scheduler = Scheduler(tmp_path, expand_suite(SUITES["maze"], seeds=1, games=["plus 5"], methods=["jfi"]), retries=0)
    (job,) = scheduler.jobs.values()
    job.state = "running"
    assert "plus 5" in painted(SweepTable("maze", scheduler))
    job.spec = replace(job.spec, env="[red]plus 5")
    assert "[red]plus 5" in painted(SweepTable("maze", scheduler))
