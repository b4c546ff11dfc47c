import io

import pytest
from rich.console import Console

from hsearch.cli import counting
from hsearch.cli.counting import PlainLines, duration


def lines(capsys, seconds, total, what="preparing mine"):
    """What is printed if `total` images take so many seconds, or `seconds(done)` each."""
    now = [0.0]
    progress = PlainLines(clock=lambda: now[0])
    for done in range(1, total + 1):
        now[0] += seconds(done) if callable(seconds) else seconds / total
        progress(what, done, total)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_short_preparation_is_silent(capsys):
    assert lines(capsys, 0.5, 1000) == []


def test_a_line_every_tenth(capsys):
    printed = lines(capsys, 20, 1000)
    assert len(printed) in (9, 10)
    assert printed[0] == "preparing mine: 100/1000 (10%), 18 s left"


def test_a_line_every_five_seconds_of_a_long_one(capsys):
    assert 18 <= len(lines(capsys, 100, 1000)) <= 20


def test_never_more_than_one_line_a_second(capsys):
    assert 1 <= len(lines(capsys, 3, 1000)) <= 3


def test_the_end_has_no_time_left(capsys):
    assert lines(capsys, 100, 10)[-1] == "preparing mine: 10/10 (100%)"


def test_the_estimate_follows_the_speed_of_the_last_half_minute(capsys):
    """500 images of 0.01 s, then 500 of 1 s: the mean from the start would say half of the time."""
    printed = lines(capsys, lambda done: 0.01 if done <= 500 else 1.0, 1000)
    late = next(line for line in printed if " 60" in line)
    assert late.endswith(", 7 min left")


def test_a_new_phase_begins_anew(capsys):
    now = [0.0]
    progress = PlainLines(clock=lambda: now[0])
    for what in ("unpacking a.zip (MB)", "preparing mine"):
        for done in (1, 2, 3):
            now[0] += 6
            progress(what, done, 4)
    assert capsys.readouterr().err.splitlines()[2:] == [
        "preparing mine: 2/4 (50%), 12 s left",
        "preparing mine: 3/4 (75%), 6 s left",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (59.4, "59 s"), (61, "1 min"), (200, "3 min"), (3600, "1 h 0 min")],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_a_terminal_gets_one_bar_that_begins_anew_with_a_phase(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(counting, "Console", lambda stderr: terminal)
    with counting.showing() as progress:
        progress("unpacking [a].zip (MB)", 4, 4)
        terminal.print("between")
        progress("preparing mine", 1, 5)
    drawn = screen.getvalue()
    assert "unpacking [a].zip (MB)" in drawn
    assert "preparing mine" in drawn
    assert "1/5" in drawn
