"""Hits and predictions in files of every format: their content, their records, and what changes do."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from daskrf import TableFormat, add, fingerprint, fit, predict, screen, status, verify
from daskrf.errors import InputError, OptionError, StoreError
from tests.jobs.job import FEATURES

ENDINGS = (".csv", ".csv.gz", ".parquet", ".sdf", ".smi", ".xlsx")


@pytest.fixture(scope="module")
def made(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a library with further columns, some named as columns of hits are."""
    out = tmp_path_factory.mktemp("outputs")
    fingerprint(inputs[0], out / "fp", rows_per_partition=150)
    fit(out / "fp", inputs[1], out / "model", feature_map=FEATURES, direction="minimize")
    with (out / "vendor.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Catalog ID", "SMILES", "price", "rank", "reason", "source"])
        for number, line in enumerate(inputs[0].read_text().splitlines()):
            smiles, _, name = line.partition(" ")
            writer.writerow([name, smiles, number, f"r{number}", 'in "stock", few', "shelf"])
    return out


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_hits_are_the_same_in_every_format(made: Path, tmp_path: Path) -> None:
    reports = {e: screen(made / "model", made / "vendor.csv", tmp_path / f"h{e}", k=9) for e in ENDINGS}
    tables = [report.table for report in reports.values()]
    assert all(table.equals(tables[0]) for table in tables)
    rows = tables[0].to_pylist()
    assert [row["price"] for row in rows] == [str(row["line"] - 2) for row in rows]
    assert [row["rank_input"] for row in rows] == [f"r{row['price']}" for row in rows]
    assert {row["source_input"] for row in rows} == {"shelf"}
    assert {row["reason"] for row in rows} == {'in "stock", few'}
    found = read(tmp_path / "h.csv")
    assert [float(row["mean"]) for row in found] == tables[0]["mean"].to_pylist()
    assert [row["reason"] for row in found] == tables[0]["reason"].to_pylist()
    molecules = list(Chem.SDMolSupplier(str(tmp_path / "h.sdf")))
    assert [m.GetProp("_Name") for m in molecules] == tables[0]["id"].to_pylist()
    assert (tmp_path / "h.smi").read_text().split()[::2] == tables[0]["smiles"].to_pylist()
    sheet = openpyxl.load_workbook(tmp_path / "h.xlsx").active
    header, *cells = sheet.iter_rows(values_only=True)
    assert list(header) == tables[0].column_names
    for place, name in enumerate(header):
        values, column = [cell[place] for cell in cells], tables[0][name].to_pylist()
        assert values == (pytest.approx(column, rel=1e-15) if isinstance(column[0], float) else column)
    assert pq.read_table(tmp_path / "h.parquet").replace_schema_metadata().equals(tables[0])


@pytest.mark.parametrize("ending", ENDINGS)
def test_hits_are_known_again_in_every_format(ending: str, made: Path, tmp_path: Path) -> None:
    path = tmp_path / f"h{ending}"
    first = screen(made / "model", made / "fp", path, k=9)
    before = path.read_bytes()
    again = screen(made / "model", made / "fp", path, k=9)
    assert again.table.equals(first.table)
    assert again.notes[-1] == f"{path} already holds exactly these hits"
    assert status(path).kind == "hits"
    assert "9 hits (k = 9), the best of 600 molecules by greedy" in str(status(path))
    assert verify(path).sound
    with pytest.raises(StoreError, match=r"holds the hits of another search: -k \(was 9, now 6\)"):
        screen(made / "model", made / "fp", path, k=6)
    path.write_bytes(before[:400] + b"#" + before[401:])  # a change by hand
    assert not verify(path).sound
    with pytest.raises(StoreError, match=r"cannot be read \(.*delete it"):
        screen(made / "model", made / "fp", path, k=9)
    with pytest.raises(InputError, match=r"(was changed|was not written).* is never replaced"):
        screen(made / "model", made / "fp", path, k=9, overwrite=True)
    path.unlink()
    assert screen(made / "model", made / "fp", path, k=9, overwrite=True).table.equals(first.table)
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", [screen, predict])
def test_a_file_of_the_user_is_never_replaced(command: Any, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("precious")
    options: dict[str, Any] = {"overwrite": True} if command is screen else {}
    with pytest.raises(
        InputError, match=r"mine\.csv exists and (was not written by|does not hold predictions)"
    ):
        command(made / "model", made / "fp", path, **options)
    assert path.read_text() == "precious"
    with pytest.raises(StoreError, match=r"together with its record, \.mine\.csv\.record"):
        status(path)


LABELS = {"smiles": ["CCO", "CCN", "CCC", "CCS"], "score": [1.0, 2.0, 2.5, 4.0]}
FOLDERS: dict[str, Any] = {
    "fingerprint": lambda made, out: fingerprint(made / "vendor.csv", out),
    "fit": lambda made, out: fit(LABELS, output=out, quick=True, direction="minimize"),
    "add": lambda made, out: add(made / "model", LABELS, output=out),
    "predict": lambda made, out: predict(made / "model", ["CCO"], out),
}


@pytest.mark.parametrize("command", FOLDERS)
def test_a_folder_of_the_user_gets_nothing(command: str, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("precious")
    with pytest.raises(StoreError, match=r"mine holds other files and is not a daskrf (store|model)"):
        FOLDERS[command](made, out)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["mine"]
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_predictions_do_not_replace_hits(made: Path, tmp_path: Path) -> None:
    screen(made / "model", made / "fp", tmp_path / "h.csv", k=9)
    with pytest.raises(InputError, match=r"h\.csv exists and does not hold predictions"):
        predict(made / "model", made / "fp", tmp_path / "h.csv")


def test_rejects_are_a_csv_file_beside_other_files(made: Path, tmp_path: Path) -> None:
    for command, name in ((screen, "h.sdf"), (predict, "p.csv")):
        report = command(made / "model", made / "vendor.csv", tmp_path / name)
        assert report.rejects == tmp_path / f"{name[0]}.rejects.csv"
        rows = read(report.rejects)
        assert len(rows) == report.rejected == 4
        assert [int(row["line"]) for row in rows] == [5, 122, 303, 601]
        assert all(row["reason"] for row in rows)
        assert status(report.rejects).kind == "rejects"
        assert verify(report.rejects).sound
        report.rejects.write_text("changed")
        assert not verify(report.rejects).sound


def test_predictions_keep_smiles_and_the_columns_of_the_input(made: Path, tmp_path: Path) -> None:
    report = predict(made / "model", made / "vendor.csv", tmp_path / "p.csv")
    assert (tmp_path / "p.csv").is_file()
    rows = read(tmp_path / "p.csv")
    assert len(rows) == report.rows == 600
    given = {row["Catalog ID"]: row for row in read(made / "vendor.csv")}
    for row in rows:
        assert row["smiles"] == given[row["id"]]["SMILES"]
        assert row["price"] == given[row["id"]]["price"]
        assert row["rank"] == given[row["id"]]["rank"]
        assert row["source_input"] == "shelf"
    fmt = TableFormat(extra=("price",))
    predict(made / "model", made / "vendor.csv", tmp_path / "folder", format=fmt)
    table = pq.read_table(tmp_path / "folder")
    assert table.column_names == ["row", "id", "smiles", "mean", "std", "std_y", "price"]
    assert table["mean"].to_pylist() == [float(row["mean"]) for row in rows]
    assert table["std_y"].to_pylist() == [float(row["std_y"]) for row in rows]
    predict(made / "model", made / "vendor.csv", tmp_path / "plain")
    assert pq.read_table(tmp_path / "plain").column_names == table.column_names[:-1]


def test_columns_that_a_store_keeps_reach_hits_and_predictions(made: Path, tmp_path: Path) -> None:
    fingerprint(made / "vendor.csv", tmp_path / "fp", format=TableFormat(extra=("price",)))
    hits = screen(made / "model", tmp_path / "fp", tmp_path / "h.csv", k=4).table
    assert hits["price"].to_pylist() == [str(line - 2) for line in hits["line"].to_pylist()]
    predict(made / "model", tmp_path / "fp", tmp_path / "p.csv")
    assert [int(row["price"]) for row in read(tmp_path / "p.csv")[:3]] == [0, 1, 2]


def test_only_columns_that_all_files_have_are_kept(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    text = (made / "vendor.csv").read_text().splitlines()
    (tmp_path / "a.csv").write_text("\n".join(text[:20]))
    (tmp_path / "b.csv").write_text("smiles,id,PRICE,price\nCCO,e,x,y\nCCN,f,x,z\n")
    predict(made / "model", [tmp_path / "a.csv", tmp_path / "b.csv"], tmp_path / "p.csv")
    rows = read(tmp_path / "p.csv")
    assert list(rows[0])[6:] == ["price"]
    assert [row["price"] for row in rows[-2:]] == ["y", "z"]


def test_predictions_in_a_file_are_known_again(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.sdf"
    first = predict(made / "model", made / "fp", path)
    before = path.read_bytes()
    again = predict(made / "model", made / "fp", path)
    assert (again.rows, again.partitions, again.made) == (first.rows, first.partitions, 0)
    assert again.notes == (f"{path} already holds exactly these predictions",)
    assert "600 predictions of score" in str(status(path))
    assert verify(path).sound
    with pytest.raises(StoreError, match=r"predictions of another model or library: .*std"):
        predict(made / "model", made / "fp", path, std=False)
    path.write_bytes(before + b"\n")
    with pytest.raises(StoreError, match="it was changed since it was written"):
        predict(made / "model", made / "fp", path)
    assert not verify(path).sound
    assert "changed since it was written" in str(status(path))
    path.unlink()
    predict(made / "model", made / "fp", path)
    assert path.read_bytes() == before


def test_an_interrupted_prediction_goes_on(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from daskrf.storage import tablefiles

    with monkeypatch.context() as patch:

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setitem(tablefiles._WRITERS, ".csv", full)
        with pytest.raises(StoreError, match="no space is left"):
            predict(made / "model", made / "fp", tmp_path / "p.csv")
    assert not (tmp_path / "p.csv").exists()
    report = predict(made / "model", made / "fp", tmp_path / "p.csv")
    assert (report.made, report.rows) == (0, 600)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".p.csv.record", "p.csv", "p.csv.log"]


@pytest.mark.parametrize("name", ["p.xls", "p.txt", "p.tsv", "p.html"])
def test_a_name_of_another_file_is_no_folder(name: str, made: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"does not say how to write a table of molecules"):
        predict(made / "model", made / "fp", tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_parquet_of_predictions_is_one_file(made: Path, tmp_path: Path) -> None:
    predict(made / "model", made / "fp", tmp_path / "p.parquet")
    table = pq.read_table(tmp_path / "p.parquet")
    predict(made / "model", made / "fp", tmp_path / "folder")
    assert table.equals(pa.concat_tables([pq.read_table(tmp_path / "folder")]))
    assert status(tmp_path / "p.parquet").kind == "table"
