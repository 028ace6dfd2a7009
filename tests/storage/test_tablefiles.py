"""Tables of molecules as CSV, Parquet, SD files and SMILES: what is read back is what was written."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import tempfile
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rdkit import Chem

from daskrf.errors import InputError, OptionError
from daskrf.storage.tablefiles import ENDINGS, beside, check_ending, ending_of, write_molecules
from daskrf.tables.spreadsheets import restored

SMILES = ["CCO", "c1ccccc1", "C[C@H](N)C(=O)O", "F/C=C/F", "[Na+].[Cl-]", "C" * 1200]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def table_of(rows: list[tuple[str, str, float, str]]) -> pa.Table:
    names = ("id", "smiles", "mean", 'of "ours", <x>\n')
    columns = list(zip(*rows, strict=True)) or [[]] * 4
    kinds = (pa.string(), pa.string(), pa.float64(), pa.string())
    return pa.table(
        {name: pa.array(list(c), kind) for name, c, kind in zip(names, columns, kinds, strict=True)}
    )


ROWS = st.lists(st.tuples(TEXT, st.sampled_from(SMILES[:5]), NUMBERS, TEXT), max_size=5)


def written(table: pa.Table | list[pa.Table], name: str, folder: Path) -> bytes:
    write_molecules(table, folder / name)
    data = (folder / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


@settings(deadline=None)
@given(ROWS)
def test_csv_keeps_every_value(rows: list[tuple[str, str, float, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(rows)
        text = written([table.slice(0, 1), table.slice(1)], "x.csv", Path(folder)).decode()
    head, *lines = csv.reader(io.StringIO(text, newline=""))
    assert head == table.column_names
    assert [(restored(a), b, float(c), restored(d)) for a, b, c, d in lines] == rows


@settings(deadline=None)
@given(ROWS)
@example([("$$$$", "CCO", 0.0, "$$$$"), ("a", "CCO", 1.0, "$$$$ or more")])
def test_an_sd_file_has_the_structures_titles_and_properties(
    rows: list[tuple[str, str, float, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.sdf"
        write_molecules(table_of(rows), path)
        found = list(Chem.SDMolSupplier(str(path))) if rows else []
        assert path.read_text().splitlines().count("$$$$") == len(rows)
    assert len(found) == len(rows)
    for molecule, (name, smiles, mean, note) in zip(found, rows, strict=True):
        assert Chem.MolToSmiles(molecule) == Chem.MolToSmiles(Chem.MolFromSmiles(smiles))
        properties = molecule.GetPropsAsDict(autoConvertStrings=False)
        assert molecule.GetProp("_Name").strip() == " ".join(name.split())
        assert float(properties["mean"]) == mean
        assert properties.get('of "ours", (x)', "").lstrip(" ") == " ".join(note.split())


def test_the_structure_of_a_large_molecule_is_whole(tmp_path: Path) -> None:
    write_molecules(table_of([("big", SMILES[5], 1.0, "")]), tmp_path / "x.sdf")
    (molecule,) = Chem.SDMolSupplier(str(tmp_path / "x.sdf"))
    assert molecule.GetNumAtoms() == 1200


def test_what_cannot_be_drawn_keeps_its_record(tmp_path: Path) -> None:
    write_molecules(table_of([("a", "C1CC", 1.0, ""), ("b", "CC", 2.0, "")]), tmp_path / "x.sdf")
    first, second = Chem.SDMolSupplier(str(tmp_path / "x.sdf"))
    assert (first.GetNumAtoms(), second.GetNumAtoms()) == (0, 2)
    assert first.GetProp("smiles") == "C1CC"


def test_smiles_have_their_ids_behind_a_tab(tmp_path: Path) -> None:
    rows = [("a b", "CCO", 1.0, ""), ("c\td\ne", "CC", 2.0, "")]
    assert written(table_of(rows), "x.smi", tmp_path) == b"CCO\ta b\nCC\tc d e\n"


def test_parquet_is_the_table(tmp_path: Path) -> None:
    table = table_of([(str(i), "CC", i / 7, "") for i in range(5)])
    write_molecules([table.slice(0, 2), table.slice(2)], tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").equals(table)


@pytest.mark.parametrize("name", ["x.csv.gz", "x.SDF.gz", "x.smi.gz"])
def test_compressed_files_have_the_same_content_whenever_written(name: str, tmp_path: Path) -> None:
    table = table_of([("a", "CCO", 1.5, "n")])
    (tmp_path / "later").mkdir()
    assert written(table, name, tmp_path) == written(table, name.removesuffix(".gz"), tmp_path)
    write_molecules(table, tmp_path / "later" / name)
    assert (tmp_path / "later" / name).read_bytes() == (tmp_path / name).read_bytes()


def test_missing_values_and_nan_are_empty_fields(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", None], "smiles": ["C", "C"], "mean": [float("nan"), None]})
    assert written(table, "x.csv", tmp_path) == b"id,smiles,mean\na,C,\n,C,\n"


@pytest.mark.parametrize("name", ["x", "x.xlsx.gz", "x.parquet.gz", ".csv", "x.gz"])
def test_an_unknown_ending_is_refused_with_those_that_are_known(name: str, tmp_path: Path) -> None:
    assert ending_of(tmp_path / name) == ""
    with pytest.raises(OptionError, match=r"\.csv, \.parquet, \.sdf, \.smi and \.xlsx, for example"):
        check_ending(tmp_path / name)


def test_every_ending_is_known_in_capitals_too() -> None:
    assert all(ending_of(Path(f"HITS{ending.upper()}")) == ending for ending in ENDINGS)


ODD = [
    "=1+1",
    "00123",
    "1e5",
    "a\nb",
    "a\r\nb",
    "\x07bell",
    "'x",
    "",
    "ß \U0001f600",
    " a ",
    "TRUE",
    "_x0041_",
]


def test_a_workbook_keeps_every_value_whenever_it_is_written(tmp_path: Path) -> None:
    """But for control characters and line ends of Windows, which XML cannot hold."""
    rows = [(text, "CCO", float(k) / 7, text) for k, text in enumerate(ODD)]
    table = table_of(rows)
    data = written([table.slice(0, 1), table.slice(1)], "x.xlsx", tmp_path)
    assert written(table, "y.xlsx", tmp_path) == data
    head, *cells = openpyxl.load_workbook(io.BytesIO(data)).active.iter_rows(values_only=True)
    kept = [text.replace("\r\n", "\n").replace("\x07", "\ufffd") for text in ODD]
    assert [restored(cell[0] or "") for cell in cells] == [restored(cell[3] or "") for cell in cells] == kept
    assert [cell[2] for cell in cells] == pytest.approx(table["mean"].to_pylist(), rel=1e-15)
    assert list(head) == table.column_names


def test_what_a_workbook_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"have 1,048,576 rows, and a sheet .* write x.csv or x.parquet"):
        check_ending(tmp_path / "x.xlsx", n_rows=1 << 20)
    with pytest.raises(InputError, match=r"row 2 has 40,000 characters, and a cell of Excel holds 32,767"):
        write_molecules(table_of([("a", "C", 1.0, ""), ("C" * 40_000, "C", 1.0, "")]), tmp_path / "x.xlsx")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(OptionError, match=r"takes openpyxl; install it .*'daskrf\[excel\]'.*write x.csv"):
        check_ending(tmp_path / "x.xlsx")


def test_columns_of_the_input_never_take_the_place_of_others() -> None:
    rows = pa.table({"id": ["x"], "row": [7], "std": ["a"], "std_input": ["b"]})
    found = beside(pa.table({"id": ["m"], "std": [1.0]}), rows)
    assert found.to_pylist() == [{"id": "m", "std": 1.0, "std_input": "a", "std_input_input": "b"}]
