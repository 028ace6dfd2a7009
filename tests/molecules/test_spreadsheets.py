"""What a spreadsheet would run is harmless in what is written, and comes back as it was."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskrf.storage.tablefiles import write_molecules
from daskrf.tables import TableFormat, read_partition, scan
from daskrf.tables.spreadsheets import harmless, restored

FORMULAS = [
    *('=HYPERLINK("http://x","y")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=1"),
    *("-x", "--", "=O"),
]
HARMLESS = ["-7.1", "+5", "-1e-3", "-7,5", "CCO", "[N-]=[N+]=N", "-", "'='", "it's", "", "5%", "'x"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_get_an_apostrophe(text: str) -> None:
    assert harmless(text) == f"'{text}"
    assert restored(f"'{text}") == text


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert harmless(text) == restored(text) == text


@given(st.text(alphabet="'=+-@\t\r<>5.x", max_size=6))
def test_nothing_that_is_written_is_lost(text: str) -> None:
    assert restored(harmless(text)) == text


def test_a_table_comes_back_as_it_was(tmp_path: Path) -> None:
    names = [text.strip() for text in FORMULAS if text.strip()]
    table = pa.table(
        {
            "smiles": ["CCO"] * len(names),
            "id": names,
            "=cost": ["-7.5"] * len(names),
            "mean": [-7.25] * len(names),
        }
    )
    write_molecules(table, tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["smiles", "id", "'=cost", "mean"]
    assert all(row[1].startswith("'") and row[2:] == ["-7.5", "-7.25"] for row in rows[1:])
    (batch,) = read_partition(scan(tmp_path / "a.csv", TableFormat(extra=("=cost",))), 0)
    assert (batch.id, batch.extra["=cost"]) == (names, ["-7.5"] * len(names))
