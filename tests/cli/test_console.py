"""Progress on a terminal and in a log file."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest

from daskrf.cli.console import LineProgress, TerminalProgress, make_progress
from daskrf.quantities import amount, duration


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_come_every_few_seconds_with_rate_and_time_left():
    clock, stream = Clock(), io.StringIO()
    progress = LineProgress(stream, clock)
    progress.start("fingerprint", 10_000, "rows")
    for _ in range(9):  # 9 s at 1000 rows/s
        clock.now += 1
        progress.advance(1000)
    clock.now += 1
    progress.advance(1000)
    progress.finish("12 rejected")
    assert stream.getvalue().splitlines() == [
        "fingerprint: 10,000 rows to do",
        "fingerprint: 5,000 of 10,000 rows, 1,000 rows/s, 5.0 s left",
        "fingerprint: done, 10,000 rows in 10 s. 12 rejected",
    ]


def test_what_takes_seconds_has_a_time_instead_of_a_rate():
    clock, stream = Clock(), io.StringIO()
    progress = LineProgress(stream, clock)
    progress.start("predict what is left out", 5, "folds")
    clock.now += 7
    progress.advance(2)
    assert stream.getvalue().splitlines()[1].endswith(": 2 of 5 folds, 3.5 s each, 10 s left")


def test_stages_start_from_nothing():
    clock, stream = Clock(), io.StringIO()
    progress = LineProgress(stream, clock)
    for stage in ("one", "two"):
        progress.start(stage, 0, "")
        clock.now += 2
        progress.finish()
    assert stream.getvalue().splitlines() == [
        "one: started",
        "one: done, 2.0 s",
        "two: started",
        "two: done, 2.0 s",
    ]


def test_a_stage_without_work_says_so_once():
    stream = io.StringIO()
    progress = LineProgress(stream, Clock())
    progress.start("fingerprint", 0, "rows")
    progress.finish()
    assert stream.getvalue().splitlines() == ["fingerprint: nothing left to do"]


def test_the_terminal_says_the_same():
    stream = Terminal()
    with make_progress(stream) as progress:
        progress.start("fingerprint", 0, "rows")
        progress.finish()
        progress.start("solve", 1, "models")
        progress.advance(1)
        progress.finish()
    shown = stream.getvalue()
    assert "nothing left to do" in shown
    assert "1 model in" in shown


def test_terminal_shows_stage_amount_and_closing_sentence():
    stream = Terminal()
    with make_progress(stream) as progress:
        assert isinstance(progress, TerminalProgress)
        progress.note("[not markup] hello")
        progress.start("featurize", 2000, "rows")
        progress.advance(500)
        progress.advance(1500)
        progress.finish("all well")
    shown = stream.getvalue()
    assert "[not markup] hello" in shown
    assert "featurize" in shown
    assert "100 %" in shown
    assert "2,000 rows in" in shown
    assert "all well" in shown


def test_terminal_survives_an_error_and_gives_the_cursor_back():
    stream = Terminal()
    with suppress(RuntimeError), make_progress(stream) as progress:
        progress.start("featurize", 10, "rows")
        raise RuntimeError
    assert stream.getvalue().rstrip().endswith("\x1b[?25h")


def test_a_file_gets_lines():
    assert isinstance(make_progress(io.StringIO()), LineProgress)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.9, "9.9 s"),
        (59.4, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (90000, "25 h 0 min"),
    ],
)
def test_duration(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (999, "bytes", "999 B"),
        (1024, "bytes", "1.0 KiB"),
        (1.5 * 2**30, "bytes", "1.5 GiB"),
        (0, "rows", "0 rows"),
        (1, "rows", "1 row"),
        (2, "models", "2 models"),
        (1234567, "molecules", "1,234,567 molecules"),
    ],
)
def test_amounts(value, unit, words):
    assert amount(value, unit) == words


def test_notes_are_printable_and_bounded():
    for stream in (io.StringIO(), Terminal()):
        with make_progress(stream) as progress:
            progress.note("a\x1b[2Jb " + "x" * 10**6)
        text = stream.getvalue()
        assert "\\x1b[2J" in text
        assert "\x1b[2J" not in text
        assert len(text) < 10_000
