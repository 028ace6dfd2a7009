"""DataFrames, lists of SMILES, molecules of RDKit and standard input in the place of files."""

from __future__ import annotations

import gzip
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

import daskrf
from daskrf import TanimotoMinMaxFeatures
from daskrf.cli.app import run
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.sources.given import as_files
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.tables.frames import table_of

N = 60
SMILES = list(ReactionLibrary().smiles(0, N))
Y = np.random.default_rng(0).standard_normal(N)
FRAME = pd.DataFrame({"smiles": SMILES, "id": [f"m{k}" for k in range(N)], "y": Y})
GIVEN: dict[str, Any] = {
    "feature_map": TanimotoMinMaxFeatures(64),
    "mean": 0.0,
    "signal_variance": 1.0,
    "noise_variance": 0.1,
}


def rows(store: Path) -> pa.Table:
    opened = FingerprintStore.open(store)
    return pa.concat_tables(opened.read_rows(p, ["id", "smiles"]) for p in range(opened.n_partitions))


def predictions(path: Path) -> pa.Table:
    opened = PredictionStore.open(path)
    return pa.concat_tables(opened.read(p) for p in range(opened.n_partitions))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    FRAME.to_csv(folder / "labels.csv", index=False)
    daskrf.fit(folder / "labels.csv", output=folder / "model", **GIVEN)
    return folder / "model"


def molecules() -> list[Chem.Mol]:
    found = [Chem.MolFromSmiles(text) for text in SMILES]
    for k, molecule in enumerate(found):
        molecule.SetProp("_Name", f"m{k}")
        molecule.SetDoubleProp("y", float(Y[k]))
    return found


CANONICAL = [Chem.CanonSmiles(text) for text in SMILES]
LIBRARIES: dict[str, tuple[Any, list[str], bool]] = {
    "pandas": (FRAME, SMILES, True),
    "pandas, indexed": (FRAME.set_index("id"), SMILES, True),
    "arrow": (pa.Table.from_pandas(FRAME), SMILES, True),
    "columns": ({"id": list(FRAME.id), "SMILES": SMILES}, SMILES, True),
    "molecules in a column": (pd.DataFrame({"id": FRAME.id, "mol": molecules()}), CANONICAL, True),
    "list of SMILES": (SMILES, SMILES, False),
    "series": (FRAME.smiles, SMILES, False),
    "array": (np.array(SMILES), SMILES, False),
    "SMILES with names": ([f"{text} m{k}" for k, text in enumerate(SMILES)], SMILES, True),
    "molecules": (molecules(), CANONICAL, True),
    "two tables": ([FRAME[:20], FRAME[20:]], SMILES, True),
    "generator": (iter(SMILES), SMILES, False),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_in_memory(name: str, tmp_path: Path) -> None:
    data, smiles, named = LIBRARIES[name]
    daskrf.fingerprint(data, tmp_path / "store")
    found = rows(tmp_path / "store")
    assert found["smiles"].to_pylist() == smiles
    ids = [f"m{k}" if named else f"row-{k}" for k in range(N)]
    assert found["id"].to_pylist() == ids
    assert [path.name for path in tmp_path.iterdir() if "given" in path.name] == []


@pytest.mark.parametrize(
    "labels", [FRAME, molecules(), pa.Table.from_pandas(FRAME)], ids=["frame", "mols", "arrow"]
)
def test_labels_in_memory(labels: Any, model: Path, tmp_path: Path) -> None:
    """The model is that of the file, with a library and alone, and predicts what is given in any way."""
    report = daskrf.fit(labels, output=tmp_path / "alone", target="y", **GIVEN)
    assert report.labels.matched == N
    assert re.match(r"the (table|60 molecules) given: Parquet; SMILES in 'smiles'", report.inputs[0])
    daskrf.fingerprint(FRAME, tmp_path / "store")
    joined = daskrf.fit(tmp_path / "store", labels, tmp_path / "joined", target="y", **GIVEN)
    assert (joined.labels.matched, joined.labels.unmatched) == (N, 0)
    want = daskrf.load(model).predict(SMILES)[0]
    for path in ("alone", "joined"):
        np.testing.assert_allclose(
            daskrf.load(tmp_path / path).predict(SMILES)[0], want, rtol=1e-5, atol=1e-6
        )


def test_predictions_and_hits_of_what_is_in_memory(model: Path, tmp_path: Path) -> None:
    daskrf.predict(model, FRAME, tmp_path / "frame")
    daskrf.predict(model, ["CCO", "not a molecule", "c1ccccc1"], tmp_path / "words", every_row=False)
    frame, words = predictions(tmp_path / "frame"), predictions(tmp_path / "words")
    assert frame["id"].to_pylist() == list(FRAME.id)
    assert words["row"].to_pylist() == [0, 2]
    hits = daskrf.screen(model, FRAME, tmp_path / "hits.parquet", k=3, maximize=True).table
    best = np.argsort(-frame["mean"].to_numpy(), kind="stable")[:3]
    assert hits["row"].to_pylist() == best.tolist()
    again = daskrf.predict(model, FRAME, tmp_path / "frame")
    assert again.made == 0  # the same data are recognized
    with pytest.raises(daskrf.StoreError):
        daskrf.predict(model, FRAME[:10], tmp_path / "frame")


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_molecules_of_a_list_are_rows(model: Path, missing: Any) -> None:
    rows = daskrf.predict(model, ["CCO", missing, "c1ccccc1"]).to_pandas()
    assert rows["mean"].isna().tolist() == [False, True, False]
    assert rows["reason"].tolist()[1] == "no SMILES"


def test_nothing_to_leave_out_may_be_none(model: Path, tmp_path: Path) -> None:
    none = daskrf.suggest(model, ["CCO", "CCN"], tmp_path / "b.csv", n=2, maximize=True, exclude=None)
    assert sorted(none.table["smiles"].to_pylist()) == ["CCN", "CCO"]
    with pytest.raises(InputError, match="no input files are given; name at least one"):
        daskrf.predict(model, None)


def test_every_command_takes_data(model: Path, tmp_path: Path) -> None:
    others = list(ReactionLibrary().smiles(N, 2 * N))
    batch = daskrf.suggest(
        model, pd.Series(others), tmp_path / "batch.parquet", n=5, maximize=True, exclude=others[:40]
    ).table
    assert batch.num_rows == 5
    assert not {*others[:40]} & {*batch["smiles"].to_pylist()}
    assert daskrf.evaluate(FRAME, target="y", folds=3, quick=True).n_molecules == N
    new = pd.DataFrame({"smiles": ["CCO", "CCN"], "y": [0.1, 0.2]})
    assert "2 labels added" in str(daskrf.add(model, new, output=tmp_path / "more"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (5, "source must be a path, a DataFrame, or a list of SMILES or of RDKit molecules, not int"),
        ([1j], "an element of source must be a path, .* not complex"),
        (["CCO", "librry.smi"], "'librry.smi' does not exist and is not a SMILES"),
        (["??", "!!", "CCO"], "does not exist and is not a SMILES"),
        (np.eye(2), "an element of source must be .* not list"),
        (iter([]), "source is empty; give at least one molecule or file"),
        (pd.DataFrame({"name": ["A"], "y": [1.0]}), "no column of SMILES; choose one of .* name, y"),
        (pd.DataFrame([["C", "C"]], columns=["smiles", "smiles"]), "several columns 'smiles'; rename them"),
        ({"smiles": ["C", "CC"], "y": [1.0]}, "the columns of a table differ in length"),
        ({"smiles": "CCO"}, "'smiles' of a table is of the type str; give a list"),
        ({"smiles": b"CCO"}, "'smiles' of a table is of the type bytes; give a list"),
        ({"smiles": {"CCO", "CCN"}}, "'smiles' of a table is of the type set; give a list"),
        ({"smiles": ["CCO"], "y": 1.0}, "'y' of a table is of the type float; give a list"),
    ],
)  # fmt: skip
def test_what_is_no_data_is_refused(data: Any, message: str, model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        daskrf.predict(model, data, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_no_path(model: Path) -> None:
    with pytest.raises(InputError, match="a path is expected, not DataFrame"):
        daskrf.predict(model, FRAME, FRAME)
    with pytest.raises(InputError, match="a path is expected, not list"):
        daskrf.predict(["CCO"], FRAME, "out")


def test_columns_of_any_kind(tmp_path: Path) -> None:
    mixed: list[Any] = [1.5, ">10000", "inactive", None, float("nan")]
    data = pd.DataFrame({"smiles": SMILES[:5], "mixed": mixed, "active": [True, False, None, True, True]})
    (file,) = as_files(data, tmp_path)
    assert pq.read_table(file).to_pydict() == {
        "smiles": SMILES[:5],
        "mixed": ["1.5", ">10000", "inactive", None, None],
        "active": [1, 0, None, 1, 1],
    }
    assert as_files(data, tmp_path) == [file]
    assert as_files(data[:2], tmp_path) != [file]


def test_standard_input_of_any_format(tmp_path: Path) -> None:
    text = FRAME.to_csv(index=False).encode()
    for content in (text, gzip.compress(text)):
        (file,) = as_files("-", tmp_path, io.BytesIO(content))
        assert Path(file).read_bytes() == content
    with pytest.raises(InputError, match="standard input is empty"):
        as_files("-", tmp_path, io.BytesIO(b""))
    assert len(list(tmp_path.iterdir())) == 2


def test_paths_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "C").write_text("CCO\n")  # a file goes before a molecule
    given = [str(tmp_path / "C"), tmp_path / "none", f"{tmp_path}/*"]
    assert as_files(given, tmp_path / "folder") == given
    assert not (tmp_path / "folder").exists()


def test_the_command_line_takes_words_and_standard_input(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ["--workers", "0"]
    assert run(["predict", str(model), *SMILES[:3], "-o", str(tmp_path / "words"), *here]) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FRAME[:3].to_csv(index=False).encode())))
    assert run(["predict", str(model), "-", "-o", str(tmp_path / "piped"), *here]) == 0
    words, piped = predictions(tmp_path / "words"), predictions(tmp_path / "piped")
    assert words["mean"].to_pylist() == piped["mean"].to_pylist()
    assert piped["id"].to_pylist() == ["m0", "m1", "m2"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FRAME.to_csv(index=False).encode())))
    assert run(["fit", "-", "-o", str(tmp_path / "model"), "--quick", *here]) == 0
    assert [path.name for path in tmp_path.iterdir() if "given" in path.name] == []


@pytest.mark.parametrize(
    "values",
    [
        pd.array([None, 0.5, 1.0], dtype="Float64"),
        pd.array([None, 0, 1], dtype="Int64"),
        pd.array([True, None, False], dtype="boolean"),
        pd.array([None, "a", "b"], dtype="string"),
        pd.array([pd.NA, 1, "a"], dtype=object),
    ],
)
def test_missing_values_of_pandas_are_missing(values: Any) -> None:
    frame = pd.DataFrame({"smiles": ["CCO", "CCN", "CCC"], "y": values})
    found = table_of(frame)["y"].to_pylist()
    assert [value is None for value in found] == frame["y"].isna().tolist()
    assert [str(value) for value in found if value is not None] == [
        str(int(value) if isinstance(value, (bool, np.bool_)) else value)
        for value in values
        if value is not pd.NA
    ]
