"""Excel workbooks, and the first line "sep=;" of tables that Excel writes."""

from __future__ import annotations

import gzip
import sys
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.measurements import label_words, read_labels
from daskrf.tables import read_partition, scan
from daskrf.tables.formats import excel
from tests.molecules.helpers import rows_of

ROWS: list[list[Any]] = [
    ["Compound ID", "SMILES", "IC50 (nM)", "measured"],
    ["A", "CCO", 1.5, True],
    ["B", "c1ccccc1", 12, False],
    [],
    [7, "CC", 0.123456789012345, None],
]


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_a_workbook_is_a_library_and_labels(tmp_path: Path) -> None:
    """The first sheet with rows counts, whatever the name of the file; lines are those that Excel shows."""
    path = workbook(tmp_path / "data.csv", Notes=[], Data=[[], *ROWS], More=[["x"]])
    library = scan(path)
    (batch,) = read_partition(library, 0)
    assert batch.smiles == ["CCO", "c1ccccc1", "CC"]
    assert batch.id == ["A", "B", "7"]
    assert batch.line.tolist() == [3, 4, 6]
    assert [(reject.line, reject.reason) for reject in batch.rejects] == [(5, "empty line")]
    labels = read_labels(path, targets=["IC50 (nM)"])
    assert dict(zip(labels.keys.to_pylist(), labels.y.ravel().tolist(), strict=True)) == {
        "A": 1.5,
        "B": 12.0,
        "7": 0.123456789012345,
    }
    assert "data.csv: Excel workbook, sheet 'Data', with a header; IDs in 'Compound ID'" in label_words(
        path, targets=["IC50 (nM)"]
    )
    with pytest.raises(InputError, match=r"data\.csv, row 6: 'measured' is empty"):
        read_labels(path, targets=["measured"])


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.integers(1, 25), st.booleans())
def test_partitions_of_a_workbook(
    tmp_path_factory: pytest.TempPathFactory, n: int, per_partition: int, header: bool
) -> None:
    rows = [["smiles", "id"], *(["C" * (k % 9 + 1), f"m{k}"] for k in range(n))][not header :]
    path = workbook(tmp_path_factory.mktemp("excel") / "a.xlsx", S=rows)
    library = scan(path, rows_per_partition=per_partition)
    batches = [batch for p in range(len(library.partitions)) for batch in read_partition(library, p)]
    assert [text for batch in batches for text in batch.smiles] == ["C" * (k % 9 + 1) for k in range(n)]
    assert [name for batch in batches for name in batch.id] == [f"m{k}" for k in range(n)]
    assert [row for batch in batches for row in batch.row.tolist()] == list(range(n))


def test_workbooks_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "a.xlsx", S=ROWS)
    (tmp_path / "cut.xlsx").write_bytes(path.read_bytes()[:2_000])
    with pytest.raises(InputError, match=r"cut\.xlsx is damaged, or not an Excel workbook"):
        scan(tmp_path / "cut.xlsx")
    (tmp_path / "zipped.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(InputError, match=r"zipped\.gz is excel compressed with gzip; decompress it"):
        scan(tmp_path / "zipped.gz")
    with pytest.raises(InputError, match="holds no rows"):
        scan(workbook(tmp_path / "empty.xlsx", S=[]))
    with pytest.raises(InputError, match="is empty"):
        read_labels(tmp_path / "empty.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"install openpyxl to read it \(pip install 'daskrf\[excel\]'\)"):
        scan(path)


@pytest.mark.parametrize("first", ["sep=;", "sep=|", "SEP=\t", '"sep=,"', "\ufeffsep=;"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_first_line_that_names_the_separator(first: str, end: str, tmp_path: Path) -> None:
    mark = first.rstrip('"')[-1]
    lines = [first, "id;SMILES;score", "A;CCO;1.5", "B;CC;2"]
    text = end.join([lines[0], *(line.replace(";", mark) for line in lines[1:]), ""])
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    (batch,) = read_partition(scan(tmp_path / "a.csv"), 0)
    assert (batch.smiles, batch.id, batch.line.tolist()) == (["CCO", "CC"], ["A", "B"], [3, 4])
    labels = read_labels(tmp_path / "a.csv")
    assert labels.y.ravel().tolist() == [1.5, 2.0]
    (tmp_path / "b.csv").write_text(text.replace(end.join(text.split(end)[1:2]) + end, ""), newline="")
    (batch,) = read_partition(scan(tmp_path / "b.csv"), 0)
    assert (batch.smiles, batch.line.tolist()) == (["CCO", "CC"], [2, 3])
    assert "without a header" in label_words(tmp_path / "b.csv", key="row", key_column=0, targets=[2])


def rezipped(path: Path, member: str, content: bytes) -> None:
    """Replace a part of a workbook."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**parts, member: content}.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("member", ["xl/sharedStrings.xml", "xl/media/image1.png"])
def test_a_workbook_that_unpacks_to_more_than_sheets_hold_is_refused(
    member: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excel, "_MOST_BYTES", 1 << 20)
    monkeypatch.setattr(excel, "_MOST_TEXT", 1 << 19)
    path = workbook(tmp_path / "a.xlsx", Sheet=[["smiles", "id"], ["CCO", "A"]])
    assert [row[4] for row in rows_of(scan(path))] == ["CCO"]
    rezipped(path, member, b" " * (3 << 18 if "shared" in member else 1 << 21))
    assert path.stat().st_size < 20_000
    with pytest.raises(InputError, match=r"a.xlsx unpacks to 0.0 GiB.* GiB for a workbook; save it as"):
        scan(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["smiles", "id"], ["CCO", "A"], ["CCN", "B"], ["CCC", "C"]], r"has more than 3 rows in the sheet"),
        ([["smiles", "id"], ["C" * 60, "A"]], r"has a cell of 60 characters in row 2, more than Excel"),
    ],
)
def test_rows_and_cells_beyond_those_of_excel_are_refused(
    rows: list[list[str]], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excel, "_MOST_ROWS", 3)
    monkeypatch.setattr(excel, "_LONGEST_CELL", 50)
    with pytest.raises(InputError, match=message):
        scan(workbook(tmp_path / "a.xlsx", Sheet=rows))


def test_no_memory_for_a_workbook_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "a.xlsx", Sheet=[["smiles", "id"], ["CCO", "A"]])

    def failing(*args: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("openpyxl.load_workbook", failing)
    with pytest.raises(InputError, match="needs more memory than is available; save it as CSV"):
        scan(path)


def test_truth_values_are_words(tmp_path: Path) -> None:
    path = workbook(tmp_path / "a.xlsx", Sheet=[["id", "active"], ["A", True], ["B", False]])
    assert read_labels(path).y.ravel().tolist() == [1, 0]
    assert label_words(path).endswith("target 'active', 'TRUE' read as 1 and 'FALSE' as 0")


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        ("General", 57.8, "57.8"),
        ("0%", 0.66, "66 %"),
        ("0.00%;[Red]-0.00%", 0.578, "57.8 %"),
        ("0%", 1, "100 %"),
        ("0%", 12.0, "1200 %"),
        ('0.0" uM"', 2.5, "2.5 uM"),
        ("0.0\\ \\n\\M", 2.5, "2.5 nM"),
        ('">"0', 50, ">50"),
        ('"≤ "0.00', 50, "≤50"),
        ('#,##0.00 "pcs"', 1234.5, "1234.5"),
        ('_-* #,##0.00_-;\\-* #,##0.00_-;_-* "-"??_-;_-@_-', 7, "7"),
        ("0.00E+00", 1e-7, "1e-07"),
        ('"no. "0', 3, "3"),
        ("@", 3, "3"),
    ],
)
def test_what_a_format_adds_to_a_number_is_read(form: str, value: float, text: str, tmp_path: Path) -> None:
    path = workbook(tmp_path / "f.xlsx", Data=[["SMILES", "y"], ["CCO", value], ["C", "a%"]])
    book = openpyxl.load_workbook(path)
    book["Data"]["B2"].number_format = form
    book.save(path)
    with excel._workbook(path) as opened:
        assert [row[1] for row in excel._cells(opened["Data"])] == ["y", text, "a%"]


def test_per_cent_beside_plain_numbers_is_another_unit(tmp_path: Path) -> None:
    rows = [["SMILES", "% inhibition"], *(["C" * k, 10.5 + k] for k in range(1, 9))]
    path = workbook(tmp_path / "pct.xlsx", Data=rows)
    book = openpyxl.load_workbook(path)
    for k in (3, 5):
        book["Data"][f"B{k}"].value = 0.66
        book["Data"][f"B{k}"].number_format = "0%"
    book.save(path)
    with pytest.raises(InputError, match="row 3: '% inhibition' holds '66 %', which is in another unit"):
        read_labels(path, key="structure")
