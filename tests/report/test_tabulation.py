"""Plain-text tables."""

from __future__ import annotations

from daskrf.report.tabulation import shorten, text_table


def test_numbers_are_flush_right_and_text_left():
    table = text_table(["name", "n", "x"], [["a", 1200, 0.5], ["long name", 7, -10.25]])
    assert table.splitlines() == [
        "name           n       x",
        "a          1,200    0.50",
        "long name      7  -10.25",
    ]


def test_no_rows():
    assert text_table(["a", "b"], []) == "a  b"


def test_shorten_keeps_the_width():
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"
