"""Status and verify tell people what they need, for every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from daskrf import TanimotoMinMaxFeatures
from daskrf.errors import StoreError
from daskrf.files.backend import as_path
from daskrf.molecules import FingerprintSpec
from daskrf.storage.descriptions import map_words
from daskrf.storage.hits import write_hits
from daskrf.storage.inspection import status, verify
from daskrf.storage.model import save_model
from daskrf.storage.runlog import RunLog
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.predictions import PredictionStore
from tests.storage.strategies import fill, full_store, new_store, random_counts, rejects_table, rows_table

STATE = TanimotoMinMaxFeatures(n_components=4096).state()


def test_fingerprint_store(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", 4, 20)
    for p, reasons in enumerate((["ring 1 open", "ring 22 open"], ["empty line"])):
        start, n = 20 * p, 20 - len(reasons)
        rejects = [rejects_table([start + n + i], reason) for i, reason in enumerate(reasons)]
        counts = {"empty": 2, "saturated": p}
        store.write_partition(p, random_counts(n), rows_table(start, n), pa.concat_tables(rejects), counts)
    fill(store, 2)
    (store.path / "rows" / "000002.parquet").write_bytes(b"")
    found = status(store.path)
    assert (found.kind, found.n_partitions, found.done, found.missing) == ("fingerprints", 4, 2, (3,))
    assert list(found.damaged) == [2]
    assert found.reasons == {"ring # open": 2, "empty line": 1}
    assert (found.counts["read"], found.counts["kept"], found.counts["rejected"]) == (40, 37, 3)
    text = str(found)
    for words in (
        "a fingerprint store, unfinished",
        "Morgan (circular) fingerprints of radius 1, counts, unfolded",
        "RDKit 2026.09.1",
        "2 of 4 done, 1 missing, 1 damaged",
        "partition 2: rows/000002.parquet has 0 bytes",
        "40 read = 37 kept + 3 rejected",
        "rejected 2: ring # open",
        "without any feature: 4",
        "stored as 65,535: 1",
        "bytes a molecule",
        "run `daskrf fingerprint` again",
    ):
        assert words in text
    assert found.bytes == sum(store.record(p).bytes for p in (0, 1))


def test_feature_and_prediction_stores(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s", 2, 20)
    features = FeatureStore.new(tmp_path / "f", source, STATE, 4096)
    plan = {"source": source.spec_hash, "model": "ab12" * 16, "rows": [20, 20]}
    origin = {"source_path": "library.fp", "model_path": "score.model"}
    predictions = PredictionStore.new(tmp_path / "p", **plan, options={"std": True}, provenance=origin)
    for p in range(2):
        features.write_partition(p, np.zeros((19, 512), np.uint8), source.read_rows(p))
        table = pa.table({"row": np.arange(19), "mean": np.linspace(0, 1, 19)})
        predictions.write_partition(p, table, rejects_table([20 * p + 19], f"ring {p} open"))
        assert predictions.read(p).equals(table)
        assert predictions.read(p, ["mean"]).column_names == ["mean"]
    text = str(status(features.path))
    assert "M = 4096, seed 0: unbiased, variance (1 - T^2)/M, 512 bytes a molecule" in text
    assert f"rows of {source.path}" in text
    assert "a feature store, complete" in text
    text = str(status(predictions.path))
    for words in (
        "a prediction store, complete",
        "predictions of the model score.model",
        "rows of library.fp",
        "40 read = 38 kept + 2 rejected",
        "rejected 2: ring # open",
    ):
        assert words in text
    for store in (features, predictions):
        assert "every digest of 2 partitions is right" in str(verify(store.path))
    with pytest.raises(StoreError, match=r"--std \(was yes, now no\)"):
        PredictionStore.new(tmp_path / "p", **plan, options={"std": False})
    nameless = PredictionStore.new(tmp_path / "q", **plan, options={})
    assert "predictions of the model with hash ab12ab12ab12" in str(status(nameless.path))


def test_model(tmp_path: Path) -> None:
    metadata = {"map": STATE, "targets": ["score"], "labels": {"matched": 10, "unmatched": 2, "repeats": 0}}
    save_model(tmp_path / "m", {"w": np.ones(3)}, metadata)
    text = str(status(tmp_path / "m"))
    for words in (
        "a model, complete",
        "one-bit Tanimoto",
        "targets: score",
        "labels: 10 matched, 2 unmatched\n",
    ):
        assert words in text
    assert verify(tmp_path / "m").sound


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"class": "LocalGaussianGP", "rows": "nearest", "residual": False}, "rows nearest, no residual"),
        ({"class": "LocalGaussianGP", "rows": "all", "residual": True}, "rows all, residual"),
        ({"class": "SparseGP", "criterion": "bound"}, "criterion bound"),
    ],
)
def test_options_of_a_model(tmp_path: Path, state: dict[str, Any], words: str) -> None:
    save_model(tmp_path / "m", {}, {"map": STATE, "gp": state})
    assert f"({state['class']}): {words}\n" in str(status(tmp_path / "m"))


def test_verify_of_some_partitions(tmp_path: Path) -> None:
    store = full_store(tmp_path / "s")
    (store.path / "rows" / "000002.parquet").write_bytes(b"")
    assert verify(store.path, [0, 1]).sound
    assert verify(store.path, [0, 1]).checked == 2
    assert list(verify(store.path, [2]).damaged) == [2]
    assert "1 of 1 partition damaged" in str(verify(store.path, [2]))


@pytest.mark.parametrize("kind", ["fingerprints", "predictions"])
def test_status_of_a_store_with_damaged_rejects(tmp_path: Path, kind: str) -> None:
    if kind == "fingerprints":
        store = full_store(tmp_path / "s", 3, 20)
    else:
        plan = {"source": "a" * 64, "model": "b" * 64, "options": {}, "rows": [20] * 3}
        store = PredictionStore.new(tmp_path / "s", **plan)
        for p in range(3):
            store.write_partition(p, pa.table({"row": range(19)}), rejects_table([20 * p + 19]))
    file = store.rejects_path(1)
    data = file.read_bytes()
    assert status(store.path).notes == ()
    for damage in (data[:40] + b"\xff" * 30 + data[70:], data[:-60] + b"\xff" * 60, b"\0" * len(data)):
        file.write_bytes(damage)
        found = status(store.path)
        assert (found.done, found.counts["rejected"], found.reasons) == (3, 3, {"not a molecule": 2})
        (note,) = found.notes
        for words in ("the rejects cannot be read: partition 1 of", "is damaged", "daskrf verify --repair"):
            assert words in note
        assert note in str(found)
        assert "60 read = 57 kept + 3 rejected" in str(found)
        assert list(verify(store.path).damaged) == [1]


def test_verify_tells_how_far_it_is(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", 4, 20)
    for p in (0, 1, 3):
        fill(store, p)
    store.rejects_path(1).write_bytes(b"")
    seen: list[int] = []
    found = verify(store.path, on_partition=seen.append)
    assert seen == [0, 1, 2, 3]
    assert (found.checked, list(found.damaged), found.missing) == (3, [1], (2,))
    seen.clear()
    assert verify(store.path, [3, 2], on_partition=seen.append).checked == 1
    assert seen == [2, 3]
    save_model(tmp_path / "m", {}, {})
    seen.clear()
    assert verify(tmp_path / "m", on_partition=seen.append).sound
    assert seen == [0]


def test_nothing_there(tmp_path: Path) -> None:
    for look in (status, verify):
        with pytest.raises(StoreError, match="does not exist, or is empty"):
            look(tmp_path)


def test_words_of_a_map_that_is_not_known() -> None:
    state = {"class": "Cosines", "parameters": {"n_components": 10, "random_state": 3, "scale": 0.5}}
    assert map_words(state, "float32") == "Cosines, M = 10, seed 3, scale = 0.5, 40 bytes a molecule"


def test_a_folder_names_all_kinds_of_a_store(tmp_path: Path) -> None:
    spec = FingerprintSpec(["morgan:2", "torsion"])
    new_store(tmp_path / "fp", fingerprint=spec.state(), n_columns=spec.n_columns)
    (line,) = (line for line in str(status(tmp_path)).splitlines() if line.startswith("  fp:"))
    assert "morgan:2 + torsion, counts, unfolded" in line


def test_a_folder_lists_its_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with pytest.raises(StoreError, match="does not exist, or is empty"):
        status(folder)
    (folder / "notes.txt").write_text("mine")
    assert str(status(folder)) == f"{folder}: a folder with 0 outputs of daskrf\n  and 1 other file or folder"
    full_store(folder / "fp")
    save_model(folder / "m", {"w": np.zeros(3)}, {"targets": ["pIC50"]})
    about = {"made": "batch of 1 molecules", "target": "pIC50", "direction": "maximize"}
    write_hits(pa.table({"id": ["a"], "smiles": ["C"]}), folder / "b.csv", about, kind="batch")
    (folder / "broken").mkdir()
    (folder / "broken" / "_plan.json").write_text("{")
    log = RunLog(folder / "hits.csv", "screen")
    log.start("screen", 10, "rows")
    log.stop("It was interrupted.")
    log.close()
    monkeypatch.chdir(folder)
    for path in (folder, as_path(".")):
        found = status(path)
        lines = str(found).splitlines()
        assert lines[0] == f"{folder}: a folder with 4 outputs of daskrf"
        assert lines[1] == "  b.csv: a batch of molecules to measure, complete: batch of 1 molecules"
        assert lines[2].startswith("  fp: a fingerprint store, complete: Morgan (circular) fingerprints")
        assert lines[3].startswith("  hits.csv: hits, unfinished")
        assert lines[4] == "  m: a model, complete: targets: pIC50"
        assert lines[5].startswith("  broken: ")
        assert "damaged" in lines[5]
        assert lines[6] == "  and 1 other file or folder"
    monkeypatch.chdir(folder / "fp")
    assert str(status(as_path("."))) == str(status(folder / "fp"))
