"""The display: live table on a terminal, few plain lines elsewhere, both returns named, names never read as markup."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mmrs.runs.progress import LINE_EVERY, Display, Progress, plain_line, reward_terms

ROW = {
    "step": 512_000,
    "steps_per_second": 1000.0,
    "episode_return": 12.25,
    "game_return": 345.5,
    "reward/extrinsic": 0.02,
    "reward/extrinsic_std": 0.1,
    "reward/extrinsic_share": 0.9,
    "reward/global": -0.0004,
    "reward/global_share": 0.08,
    "reward/local_share": 0.02,
    "bonus_advantage_share": 0.034,
}


SHOW_CURSOR = "\x1b[?25h"


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=140, legacy_windows=False)


def test_plain_lines_come_every_few_seconds_only():
    out, now = console(False), [0.0]
    with Display({"a": 1_000_000}, console=out, clock=lambda: now[0]) as display:
        for _ in range(100):
            display.update("a", ROW)
            now[0] += LINE_EVERY / 10
        display.set_status("a", "done")
    lines = out.file.getvalue().splitlines()
    assert len(lines) == 11  # ten of a hundred, and the note
    assert lines[-1] == "a: done"
    for words in ("512k/1M steps (51%)", "1,000/s", "8:08 left", "one-life return 12.2", "full-game return 345.5"):
        assert words in lines[0]
    assert "reward: extrinsic 90%, global 8.0%, local 2.0%" in lines[0]
    assert "bonus in advantages 3.4%" in lines[0]


def test_a_log_ends_with_the_last_state():
    out, now = console(False), [0.0]
    with Display({"a": 1_000_000}, console=out, clock=lambda: now[0]) as display:
        display.update("a", ROW)
        display.update("a", ROW | {"step": 1_000_000, "game_return": 77.5})  # too soon for a line of its own
        display.set_status("a", "done", "done: runs/a")
    lines = out.file.getvalue().splitlines()
    assert [line.partition(" |")[0] for line in lines[:2]] == ["a: 512k/1M steps (51%)", "a: 1M/1M steps (100%)"]
    assert "full-game return 77.5" in lines[1]
    assert lines[2:] == ["a: done: runs/a"]


def test_without_lives_there_is_one_return():
    row = ROW | {"episode_return": 12.2, "game_return": 12.2}
    out = console(True)
    with Display({"a": 1_000_000}, console=out) as display:
        display.update("a", row)
    text = out.file.getvalue()
    assert "return" in text and "12.2" in text
    assert "one life" not in text and "full game" not in text
    assert " | return 12.2 | " in plain_line(display.runs["a"])
    assert "full-game" not in plain_line(display.runs["a"])


def test_the_terminal_gets_the_whole_picture():
    out = console(True)
    display = Display({"[red]x[/red]": 1_000_000}, console=out)
    with display:
        display.update("[red]x[/red]", ROW)
    text = out.file.getvalue()
    for words in (
        "[red]x[/red]",
        "one life",
        "full game",
        "12.2",
        "345.5",
        "8:08",
        "global",
        "-0.0004",
    ):
        assert words in text


def test_several_runs_side_by_side():
    out = console(True)
    with Display({"first": 100, "second": 200}, console=out) as display:
        display.update("second", {"step": 100, "steps_per_second": 50.0, "episode_return": -3.0})
        display.set_status("first", "failed")
        out.print(display.draw())
    text = out.file.getvalue()
    assert "first" in text
    assert "failed" in text
    assert "100/200" in text
    assert "0:02" in text


def on_a_narrow_terminal(monkeypatch) -> Console:
    monkeypatch.setenv("TERM", "xterm")
    return Console(file=io.StringIO(), force_terminal=True, width=80, legacy_windows=False)


def test_a_terminal_shows_a_word_in_the_table_and_the_whole_sentence_under_it(monkeypatch):
    out = on_a_narrow_terminal(monkeypatch)
    sentence = f"Stopped and saved at step 32768. Continue with: mmrs train --resume /{'a/long/way/' * 8}tty1"
    with Display({"tty1": 1_000_000}, console=out) as display:
        display.update("tty1", ROW)
        display.set_status("tty1", "stopped", sentence)
        before = out.file.getvalue()
    assert sentence not in before  # the next drawing would have gone over it
    *picture, last = out.file.getvalue().splitlines()
    assert last.removeprefix(SHOW_CURSOR) == f"tty1: {sentence}"
    assert "…" not in "".join(picture)
    row = next(line for line in reversed(picture) if "tty1" in line)
    for words in ("512k/1M", "stopped", "1,000", "12.2", "345.5", "3.4%"):
        assert words in row


def test_an_announcement_stands_above_the_table(monkeypatch):
    out = on_a_narrow_terminal(monkeypatch)
    display = Display({"a": 1_000_000}, console=out)
    assert not display.announce("Stopping")  # no picture yet: the caller has to say it
    with display:
        assert display.announce("Stopping")
    lines = out.file.getvalue().splitlines()
    place = next(number for number, line in enumerate(lines) if "Stopping" in line)
    assert "bonus in" in lines[place + 1]
    with Display({"a": 10}, console=console(False)) as elsewhere:
        assert not elsewhere.announce("Stopping")


def test_the_time_left_in_an_update_is_that_of_the_last_one():
    now = [0.0]
    display = Display({"a": 1_000_000}, quiet=True, clock=lambda: now[0])
    assert display.update_left("a") is None
    now[0] = 100.0
    display.update("a", ROW | {"seconds": 10.0})
    now[0] = 103.0
    assert display.update_left("a") == pytest.approx(7.0)


def test_a_signal_within_the_first_row_finds_the_time_left():
    display = Display({"run": 100}, quiet=True)
    taken = display.runs["run"].take

    def take(row):
        taken(row)
        assert display.update_left("run") is not None

    display.runs["run"].take = take
    display.update("run", {"step": 1, "seconds": 2.0})


def test_quiet_is_quiet():
    for terminal in (True, False):
        out = console(terminal)
        with Display({"a": 10}, console=out, quiet=True) as display:
            display.update("a", ROW)
            display.set_status("a", "done")
        assert out.file.getvalue() == ""


def test_speed_is_smoothed_and_nothing_is_known_before_the_first_update():
    run = Progress("a", 100)
    assert run.seconds_left is None
    assert "– left" in plain_line(run)
    run.take({"step": 10, "steps_per_second": 100.0})
    run.take({"step": 20, "steps_per_second": 200.0})
    assert run.speed == pytest.approx(110.0)
    assert run.seconds_left == pytest.approx(80 / 110)


def test_terms_of_a_row():
    assert reward_terms(ROW) == ["extrinsic", "global", "local"]
    assert reward_terms({"loss": 1.0}) == []


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_number_is_cut_on_a_narrow_terminal(width):
    out = Console(file=io.StringIO(), width=width)
    display = Display({"HalfCheetahBulletEnv-v0-count_penalty-12": 123_456_789, "b": 10}, console=out, quiet=True)
    row = {**ROW, "step": 98_765_432, "steps_per_second": 12_345.0}
    row |= {"episode_return": -12_345.0, "game_return": 98_765.4}
    display.update("HalfCheetahBulletEnv-v0-count_penalty-12", row)
    out.print(display.draw())
    text = out.file.getvalue()
    assert "…" not in text
    for words in ("98.77M/123.5M", "33:20", "12,345", "-12,345", "98,765", "3.4%"):
        assert words in text


def test_of_several_runs_each_has_its_own_lines():
    out, now = console(False), [0.0]
    with Display({"a": 1_000_000, "b": 1_000_000}, console=out, clock=lambda: now[0]) as display:
        for _ in range(20):
            display.update("a", ROW)
            display.update("b", ROW)
            now[0] += LINE_EVERY / 10
    assert [line[0] for line in out.file.getvalue().splitlines()] == ["a", "b"] * 2


def test_success_is_shown_where_the_environment_reports_it():
    out = console(True)
    with Display({"a": 1_000_000, "b": 1_000_000}, console=out) as display:
        display.update("a", ROW | {"env/success": 0.42})
        display.update("b", ROW)
    text = out.file.getvalue()
    assert "success" in text
    assert "42%" in text
    assert "one life" not in text
    assert "success 42%" in plain_line(display.runs["a"])
    assert "success" not in plain_line(display.runs["b"])
