"""One bar for many fits: what is left, by those that are done, told on one line."""

from __future__ import annotations

import io

import pytest

from daskrf.cli.console import LineProgress, TerminalProgress
from daskrf.fitting.fitsahead import FitsAhead
from daskrf.workers.progress import Within


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_fits_that_were_slower_than_expected_make_the_rest_slower() -> None:
    clock = Clock()
    ahead = FitsAhead([10.0, 10.0, 5.0], clock)
    assert (ahead.begin(), ahead.now) == (15.0, 10.0)
    clock.now = 40.0
    assert (ahead.begin(), ahead.now) == (20.0, 40.0)
    clock.now = 60.0
    assert ahead.begin() == 0.0
    assert ahead.now == pytest.approx(15.0)


def test_a_part_of_a_stage_tells_what_the_whole_stage_will_take() -> None:
    clock, stream = Clock(), io.StringIO()
    progress = LineProgress(stream, clock)
    progress.start("evaluate", 0, "")
    fold = Within(progress, after=60.0, doing="fold 2 of 5")
    clock.now = 30.0
    fold.start("solve", 0, "")  # is not shown
    fold.expect(30.0, "trying Tanimoto (min-max) on all kinds")
    clock.now = 31.0
    fold.expect(29.0, "at most every few seconds")
    clock.now = 40.0
    fold.after = 300.0
    fold.expect(0.0)  # an estimate that grows does not undo what is done
    fold.finish()
    progress.finish()
    assert stream.getvalue().splitlines() == [
        "evaluate: started",
        "evaluate: 25%, 1 min 30 s left (fold 2 of 5, trying Tanimoto (min-max) on all kinds)",
        "evaluate: 26%, 5 min 0 s left (fold 2 of 5)",
        "evaluate: done, 40 s",
    ]


def test_a_bar_shows_what_is_left() -> None:
    stream = io.StringIO()
    with TerminalProgress(stream) as progress:
        progress.start("solve", 0, "")
        progress.expect(90.0, "trying [b]Gaussian[/b]\x1b[2J")
        progress.finish()
    text = stream.getvalue()
    assert "100 %" in text
    assert "\x1b[2J" not in text
