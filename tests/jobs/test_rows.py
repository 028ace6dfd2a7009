"""Rows stay with their molecules: every row of the input has its own place in what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem

import daskrf
from daskrf import TableFormat, TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, RejectWarning, StoreError
from daskrf.storage.stores.predictions import PredictionStore

N = 40
SMILES = list(ReactionLibrary().smiles(0, 2 * N))
LABELS = pd.DataFrame({"smiles": SMILES[N:], "y": np.random.default_rng(0).standard_normal(N)})
GIVEN: dict[str, Any] = {
    "feature_map": TanimotoMinMaxFeatures(64),
    "mean": 0.0,
    "signal_variance": 1.0,
    "noise_variance": 0.1,
    "direction": "minimize",
}
SUPPLIERS = ["Enamine", "WuXi, Inc.", "", "enamine"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "model"
    daskrf.fit(LABELS, output=path, **GIVEN)
    return path


@pytest.fixture(scope="module")
def vendor() -> pd.DataFrame:
    """A catalogue whose rows 3 and 4 have no structure, or none that can be."""
    frame = pd.DataFrame({"smiles": SMILES[:N], "id": [f"m{k}" for k in range(N)]})
    frame["Supplier"] = [SUPPLIERS[k % 4] for k in range(N)]
    frame["Price, USD"] = [10.0 + k for k in range(N)]
    frame.loc[3, ["smiles", "id"]] = ["", "no smiles"]
    frame.loc[4, "smiles"] = "C1CC"
    return frame


def means(model: Path, smiles: list[str]) -> Any:
    return daskrf.load(model).predict(smiles)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".sdf"])
def test_a_row_without_structure_is_a_reject_of_every_command(
    ending: str, model: Path, vendor: pd.DataFrame, tmp_path: Path
) -> None:
    """Also where the rows of a library are read a second time, for the columns of filters and hits."""
    path = tmp_path / f"vendor{ending}"
    if ending == ".parquet":
        vendor.to_parquet(path, index=False)
    elif ending == ".csv":
        vendor.to_csv(path, index=False)
    else:
        records = []
        for row in vendor.itertuples():
            block = daskrf_block(row.smiles)
            records.append(f"{row.id}\n{block}>  <Supplier>\n{row.Supplier}\n\n$$$$\n")
        path.write_text("".join(records))
    bad = {3, 4}
    options: dict[str, Any] = {"n": 5, "acquisition": "greedy", "where": "Supplier != 'nobody'"}
    batch = daskrf.suggest(model, path, tmp_path / "batch.csv", **options)
    hits = daskrf.screen(model, path, tmp_path / "hits.csv", k=5)
    predicted = daskrf.predict(model, path, tmp_path / "p.csv")
    assert [report.rejected for report in (batch, hits, predicted)] == [2, 2, 2]
    rows = [k for k in range(N) if k not in bad]
    order = np.argsort(means(model, [SMILES[k] for k in rows]), kind="stable")[:5]
    assert batch.table["row"].to_pylist() == hits.table["row"].to_pylist() == [rows[k] for k in order]
    assert batch.table["id"].to_pylist() == [f"m{rows[k]}" for k in order]


def daskrf_block(smiles: str) -> str:
    """Return the MOL block of a molecule, below its title; of none, one without atoms."""
    molecule = Chem.MolFromSmiles(smiles)
    return Chem.MolToMolBlock(molecule or Chem.Mol()).partition("\n")[2]


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ('Supplier == "Enamine"', lambda row: row.Supplier == "Enamine"),
        ("'WuXi, Inc.' = Supplier", lambda row: row.Supplier == "WuXi, Inc."),
        ("supplier != 'Enamine'", lambda row: row.Supplier != "Enamine"),
        ("Supplier in (Enamine, 'enamine')", lambda row: row.Supplier.lower() == "enamine"),
        ("Supplier not in ('Enamine', '')", lambda row: row.Supplier not in ("Enamine", "")),
        ('"Price, USD" < 30 and 15 <= `Price, USD`', lambda row: 15 <= row.price < 30),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_texts_and_quoted_names_filter(
    where: str, holds: Any, stored: bool, model: Path, vendor: pd.DataFrame, tmp_path: Path
) -> None:
    vendor.to_csv(tmp_path / "vendor.csv", index=False)
    library = tmp_path / "vendor.csv"
    if stored:
        daskrf.fingerprint(library, tmp_path / "fp", format=TableFormat(extra=("*",)))
        library = tmp_path / "fp"
    passing = [
        k
        for k, row in enumerate(vendor.rename(columns={"Price, USD": "price"}).itertuples())
        if k not in (3, 4) and holds(row)
    ]
    values = means(model, [SMILES[k] for k in passing])
    want = [passing[k] for k in np.argsort(values, kind="stable")[:4]]
    batch = daskrf.suggest(model, library, tmp_path / "batch.csv", n=4, acquisition="greedy", where=where)
    assert batch.table["row"].to_pylist() == want


def test_columns_of_another_type_are_refused(model: Path, vendor: pd.DataFrame, tmp_path: Path) -> None:
    vendor.to_csv(tmp_path / "vendor.csv", index=False)
    for where, message in {
        "Supplier < 5": r"The column 'Supplier' of the library holds no numbers .* such as \"Enamine\"",
        "Supplier in (1, 2)": "The column 'Supplier' of the library holds no numbers",
        "Suplier == 'Enamine'": "'Suplier' is neither a column kept by the library nor a property",
        "weight == 'Enamine'": "compare 'weight' with a number",
    }.items():
        with pytest.raises(InputError, match=message):
            daskrf.suggest(model, tmp_path / "vendor.csv", tmp_path / "b.csv", n=2, where=where)


BAD = {2: "C1CC", 4: None, 5: "", 6: float("nan")}
REASONS = {2: "RDKit cannot parse: unclosed ring", 4: "no SMILES", 5: "no SMILES", 6: "no SMILES"}
FRAME = pd.DataFrame({"smiles": [BAD.get(k, SMILES[k]) for k in range(8)]})
INDICES: dict[str, Any] = {
    "counted": pd.RangeIndex(8),
    "unsorted": pd.Index([7, 3, 9, 1, 0, 2, 8, 5], name="compound"),
    "duplicates": pd.Index([1, 1, 2, 2, 1, 0, 0, 5]),
    "text": pd.Index(list("hgfedcba"), name="smiles"),  # named as a column is
    "dates": pd.date_range("2026-01-01", periods=8)[::-1],
    "levels": pd.MultiIndex.from_product([["a", "b"], [4, 1, 2, 3]], names=["plate", None]),
}


@pytest.mark.parametrize("name", INDICES)
def test_predictions_have_the_index_of_what_is_given(name: str, model: Path) -> None:
    """A column assigned to the frame stays with its molecules, whatever the index."""
    good = [k for k in range(8) if k not in BAD]
    want = np.full(8, np.nan)
    want[good] = means(model, [SMILES[k] for k in good])
    frame = FRAME.set_axis(INDICES[name]).assign(index="i", reason="mine", mean=3.0, input_index=7)
    for given in (frame, frame["smiles"], frame["smiles"].astype("string")):
        found = daskrf.predict(model, given).to_pandas()
        assert found.index.equals(frame.index)
        assert found.index.names == frame.index.names
        assert "input_index" not in found or given is frame
        np.testing.assert_array_equal(frame.assign(p=found["mean"])["p"].to_numpy(), want)
        assert found["row"].tolist() == list(range(8))
        assert {k: text for k, text in enumerate(found["reason"]) if isinstance(text, str)} == REASONS


def test_a_folder_of_predictions_holds_the_index(model: Path, tmp_path: Path) -> None:
    frame = FRAME.set_axis(INDICES["unsorted"]).assign(price="1")
    daskrf.predict(model, frame, tmp_path / "p.csv")
    for name in ("folder", "folder"):  # goes on with the same
        daskrf.predict(model, frame, tmp_path / name)
    found = PredictionStore.open(tmp_path / "folder").read(0).to_pandas()
    assert pd.read_csv(tmp_path / "p.csv")["input_index"].tolist() == frame.index.tolist()
    assert found["input_index"].tolist() == [str(label) for label in frame.index]  # as all columns of files
    assert "price" not in found
    daskrf.predict(model, frame["smiles"].tolist(), tmp_path / "list")
    assert "input_index" not in PredictionStore.open(tmp_path / "list").read(0).column_names


def test_several_data_are_predicted_in_their_order(model: Path, tmp_path: Path) -> None:
    one, other = FRAME[:3].set_axis([5, 5, 6]), FRAME[3:].set_axis(list("vwxyz"))
    found = daskrf.predict(model, [one, "CCO", other["smiles"], one]).to_pandas()
    assert found.index.tolist() == [5, 5, 6, 0, *"vwxyz", 5, 5, 6]
    smiles = [*SMILES[:2], "C1CC", "CCO", SMILES[3], "", "", "", SMILES[7], *SMILES[:2], "C1CC"]
    assert found["smiles"].tolist() == smiles
    np.testing.assert_array_equal(found["mean"][:3], found["mean"][-3:])
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InputError, match="their rows have no common index"):
        daskrf.predict(model, [one, tmp_path / "a.csv"])
    mixed = daskrf.predict(model, [one.reset_index(drop=True), tmp_path / "a.csv"]).to_pandas()
    assert mixed["row"].tolist() == list(range(11))


@pytest.mark.parametrize(
    "given", [FRAME[:0], FRAME["smiles"][:0], FRAME[4:6], [Chem.MolFromSmiles("C1CC")] * 2]
)
def test_rows_without_any_prediction(given: Any, model: Path) -> None:
    found = daskrf.predict(model, given).to_pandas()
    assert len(found) == len(given)
    assert found["mean"].isna().all()
    assert found["mean"].dtype == float
    assert found["reason"].tolist() == ["no SMILES"] * len(given)


@pytest.mark.parametrize(
    "given",
    [
        FRAME.assign(smiles_of="C", score=2.0),
        FRAME["smiles"].set_axis(INDICES["text"]),
        FRAME["smiles"].tolist(),
        FRAME["smiles"].to_numpy(),
        [BAD.get(k, Chem.MolFromSmiles(SMILES[k])) for k in range(8)],
    ],
)
def test_a_loaded_model_predicts_each_row(given: Any, model: Path) -> None:
    want = daskrf.predict(model, FRAME).to_pandas()
    loaded = daskrf.load(model)
    with pytest.warns(RejectWarning, match=r"4 of 8 .* the first is number 2, from 0 \('C1CC'\): .*ring"):
        np.testing.assert_array_equal(loaded.predict(given), want["mean"])
    mean, std, reasons = loaded.predict(given, return_std=True, return_reasons=True)
    np.testing.assert_array_equal(mean, want["mean"])
    np.testing.assert_array_equal(std, want["std_y"])
    assert {k: reason for k, reason in enumerate(reasons) if reason is not None} == REASONS


def test_a_loaded_model_predicts_no_files(model: Path, tmp_path: Path) -> None:
    """A text is a molecule, also if there is a file of its name, or is none."""
    loaded = daskrf.load(model)
    with pytest.warns(RejectWarning, match="2 of 2 molecules have no prediction"):
        assert np.isnan(loaded.predict(["aspirin", str(tmp_path)])).all()
    with pytest.raises(InputError, match=r"Give molecules, not the file .*; `daskrf.predict` reads files"):
        loaded.predict(tmp_path)
    mean, reasons = loaded.predict("CCO", return_reasons=True)
    assert (mean.shape, reasons) == ((1,), [None])
    X = loaded.gp.X_train_[:2] if hasattr(loaded.gp, "X_train_") else np.zeros((2, 8), np.uint8)
    assert loaded.predict(X, return_reasons=True)[1] == [None, None]


def test_many_molecules_in_memory_need_no_output(model: Path) -> None:
    frame = pd.DataFrame({"smiles": [SMILES[k % 8] for k in range(1_200)]})[::-1]
    report = daskrf.predict(model, frame)
    assert report.to_pandas().index.equals(frame.index)
    assert "and 200 rows more; see to_pandas()" in str(report)


def test_hits_and_batches_carry_the_index(model: Path, tmp_path: Path) -> None:
    frame = FRAME.set_axis(INDICES["levels"]).assign(input_index=5, price=[f"{k}" for k in range(8)])
    good = [0, 1, 3, 7]
    order = [good[k] for k in np.argsort(means(model, [SMILES[k] for k in good]), kind="stable")]
    hits = daskrf.screen(model, frame, tmp_path / "hits.csv", k=4, accept_rejects=True)
    batch = daskrf.suggest(
        model, frame, tmp_path / "batch.csv", n=4, acquisition="greedy", accept_rejects=True
    )
    for report, path in ((hits, "hits.csv"), (batch, "batch.csv")):
        for table in (report.to_pandas(), pd.read_csv(tmp_path / path)):
            assert table["row"].tolist() == order
            keys = list(zip(table["input_index2_plate"], table["input_index2_1"], strict=True))
            assert keys == [frame.index[k] for k in order]
            assert frame.loc[keys, "smiles"].tolist() == table["smiles"].tolist()
    typed = daskrf.screen(
        model, FRAME["smiles"].set_axis(INDICES["unsorted"]), tmp_path / "h.parquet", k=2, accept_rejects=True
    ).to_pandas()
    assert (
        FRAME.set_axis(INDICES["unsorted"]).loc[typed["input_index"], "smiles"].tolist()
        == typed["smiles"].tolist()
    )


LINES = [
    "smiles,id,price",
    f"{SMILES[0]},a,1",
    "C1CC,b,2",
    "",
    ",c,4",
    f"{SMILES[1]},d,5",
    "broken",
    f"{SMILES[2]},,7",
]


@pytest.mark.parametrize("output", ["p.csv", "p.csv.gz", "p.parquet", "p.sdf", "p.smi", "store"])
@pytest.mark.parametrize("stored", [False, True])
def test_every_line_in_is_a_line_out(output: str, stored: bool, model: Path, tmp_path: Path) -> None:
    """In order, over several files and partitions, with the reason and the columns of the input."""
    paths = [tmp_path / name for name in ("a.csv", "b.csv")]
    for path in paths:
        path.write_text("\n".join(LINES) + "\n")
    source: Any = paths
    if stored:
        extra = TableFormat(extra=("price",))
        daskrf.fingerprint(paths, tmp_path / "fp", format=extra, rows_per_partition=4, accept_rejects=True)
        source = tmp_path / "fp"
    out = tmp_path / output
    report = daskrf.predict(model, source, out, every_row=True, accept_rejects=True)
    assert (report.rows, report.rejected) == (6, 8)
    mean = means(model, SMILES[:3])
    lost = float("nan")
    want = [mean[0], lost, lost, lost, mean[1], lost, mean[2]] * 2
    known = not stored
    names = ["a", "b" if known else "row-1", "row-2", "c" if known else "row-3", "d", "row-5", "row-6"]
    names += ["a", "b" if known else "row-8", "row-9", "c" if known else "row-10", "d", "row-12", "row-13"]
    smiles = [SMILES[0], "C1CC" if known else "", "", "", SMILES[1], "", SMILES[2]] * 2
    if output == "p.smi":
        lines = [line.split("\t") for line in out.read_text().splitlines()]
        assert lines == [list(pair) for pair in zip(smiles, names, strict=True)]
        return
    if output == "p.sdf":
        records = out.read_text().split("$$$$\n")[:-1]
        assert [record.split("\n")[0] for record in records] == names
        assert ["<mean>" in record for record in records] == [value == value for value in want]
        assert ["<reason>" in record for record in records] == [value != value for value in want]
        return
    if output == "store":
        opened = PredictionStore.open(out)
        table = pd.concat(opened.read(p).to_pandas() for p in range(opened.n_partitions))
    else:
        table = pd.read_parquet(out) if output.endswith("parquet") else pd.read_csv(out)
    assert table["row"].tolist() == list(range(14))
    np.testing.assert_allclose(table["mean"], want, rtol=1e-12)
    np.testing.assert_array_equal(table["std"].isna(), np.isnan(want))
    assert table["id"].tolist() == names
    assert table["smiles"].fillna("").tolist() == smiles
    reasons = [
        "RDKit cannot parse: unclosed ring",
        "empty line",
        "no SMILES",
        "1 columns where 3 are expected",
    ]
    assert table["reason"].dropna().tolist() == reasons * 2
    if output != "store":
        price = [1, 2 if known else lost, lost, 4 if known else lost, 5, lost, 7] * 2
        np.testing.assert_array_equal(table["price"].astype(float), price)
    again = daskrf.predict(model, source, out, every_row=True, accept_rejects=True)
    assert again.made == 0
    with pytest.raises(StoreError, match=r"every.row"):
        daskrf.predict(model, source, out, accept_rejects=True)
