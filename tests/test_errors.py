"""What errors say is one line of text that a terminal can be shown, wherever its words come from."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskrf.errors import DaskrfError, InputError, StoreError, printable

OBEYED = {
    "\x1b[2J": r"\x1b[2J",  # clears the screen
    "\x9b31m": r"\x9b31m",  # the same door, of one byte
    "\r\n": r"\r\n",
    "\x7f\x00": r"\x7f\x00",
    "\u202egnp.": r"\u202egnp.",  # turns the direction of what follows
    "\u2066a\u2069": r"\u2066a\u2069",
    "\u2028": r"\u2028",
    "\U000e0041": r"\U000e0041",  # invisible
    "\udcff": r"\udcff",  # of a file name that is not UTF-8
}


@pytest.mark.parametrize("text", OBEYED)
def test_what_a_terminal_obeys_is_escaped(text: str) -> None:
    assert printable(f"a{text}b") == f"a{OBEYED[text]}b"
    for kind in (InputError, StoreError, DaskrfError):
        error = kind(f"{text} is no column")
        assert str(error) == f"{OBEYED[text]} is no column"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_what_people_write_stays() -> None:
    for text in ("C:\\data\\Grün ΔG 薬 🧪.smi", "", "C[C@@H](O)C#N /C=C\\C"):
        assert printable(text) == str(StoreError(text)) == text
    assert printable(3.5) == "3.5"
    assert printable(None) == "None"


@given(st.text(), st.integers(3, 40))
def test_it_is_one_line_of_bounded_length_and_stays_as_it_is(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    assert printable(shown, limit) == shown
    if text.isprintable() and len(text) <= limit:
        assert shown == text


def test_a_long_text_is_cut_before_it_is_looked_at() -> None:
    assert printable("C" * 10**6) == "C" * 497 + "..."
    assert len(printable("\x1b" * 10**6)) == 500
