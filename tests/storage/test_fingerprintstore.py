"""The fingerprint store gives back what it was given, in the same bytes each time."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zarr
from hypothesis import given, settings
from scipy.sparse import csr_matrix

from daskrf.errors import StoreError
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from tests.storage.strategies import (
    UNFOLDED,
    csr_of,
    fill,
    full_store,
    new_store,
    ragged_counts,
    random_counts,
    rejects_table,
    rows_table,
)


def same(a: csr_matrix, b: csr_matrix) -> bool:
    """Equal in shape, structure and values."""
    return a.shape == b.shape and all(
        np.array_equal(x, y) for x, y in ((a.indptr, b.indptr), (a.indices, b.indices), (a.data, b.data))
    )


@settings(derandomize=True, deadline=None, max_examples=25)
@given(ragged_counts())
def test_round_trip(fingerprints: csr_matrix) -> None:
    n, n_columns = fingerprints.shape
    with tempfile.TemporaryDirectory() as folder:
        store = new_store(Path(folder) / "s", 1, n, n_columns=n_columns)
        store.write_partition(0, fingerprints, rows_table(0, n))
        found = FingerprintStore.open(store.path).read_fingerprints(0)
    assert same(found, fingerprints)
    assert found.dtype == np.uint16
    assert found.indices.dtype == (np.int64 if n_columns == UNFOLDED else np.int32)
    checked = csr_matrix((found.data, found.indices, found.indptr), shape=found.shape)
    assert checked.has_canonical_format


def test_partition_without_kept_rows(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", 1, 2)
    store.write_partition(0, random_counts(0), rows_table(0, 0), rejects_table([0, 1]))
    assert store.read_fingerprints(0).shape == (0, UNFOLDED)
    assert store.read_rows(0).num_rows == 0
    assert store.read_rejects(0)["row"].to_pylist() == [0, 1]
    assert store.counts() == {"read": 2, "kept": 0, "rejected": 2, "nonzeros": 0}
    assert (store.pending(), store.verify(0)) == ([], [])


def test_rows_and_rejects_keep_their_columns(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", 1, 3, extra=["weight"])
    rows = rows_table(0, 2).append_column("weight", pa.array(["1.5", None]))
    store.write_partition(
        0, random_counts(2), rows.select(["weight", "id", "row", "line", "smiles", "source"])
    )
    found = store.read_rows(0)
    assert found.column_names == ["row", "id", "smiles", "source", "line", "weight"]
    assert found.cast(rows.schema).equals(rows)
    assert store.read_rows(0, ["id", "line"]).to_pydict() == {"id": ["Z0", "Z1"], "line": [2, 3]}
    assert store.read_rejects(0).num_rows == 0
    with pytest.raises(StoreError, match="no column 'mass'"):
        store.read_rows(0, ["mass"])


def test_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    first, second = full_store(tmp_path / "a"), full_store(tmp_path / "elsewhere" / "b")
    assert first.records() == second.records()
    for p in range(3):
        assert first.record_path(p).read_bytes() == second.record_path(p).read_bytes()


def test_zarr_shows_all_partitions_from_the_root(tmp_path: Path) -> None:
    store = full_store(tmp_path / "s")
    root = zarr.open(store.path, mode="r")
    assert dict(root.attrs) == {
        "format": "daskrf",
        "kind": "fingerprints",
        "n_columns": store.n_columns,
        "fingerprint": store.spec["fingerprint"],
    }
    for p in range(3):
        counts = root[f"data/{p:06d}/counts"]
        np.testing.assert_array_equal(counts[:], store.read_fingerprints(p).data)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        tree = str(zarr.open(store.path / "data", mode="r").tree())
    assert tree.count("indices") == 3


def test_metadata_for_zarr_are_mended_but_not_added_to_older_stores(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    store = full_store(tmp_path / "new" / "s")
    whole = {
        path: path.read_bytes() for path in (store.path / "zarr.json", store.path / "data" / "zarr.json")
    }
    for path, content in whole.items():
        path.unlink()
        full_store(store.path)
        assert path.read_bytes() == content
        path.write_bytes(content[:9])
        full_store(store.path)
        assert path.read_bytes() == content
    for path in whole:
        path.unlink()
    full_store(store.path)
    assert not any(path.exists() for path in whole), "a store with partitions and neither file stays so"
    shutil.rmtree(store.path / "_commits")
    (store.path / "_commits").mkdir()
    full_store(store.path)
    assert {path: path.read_bytes() for path in whole} == whole


def test_chunking_of_the_tables_does_not_change_bytes(tmp_path: Path) -> None:
    first, second = (new_store(tmp_path / name, 1, 60) for name in "ab")
    rows, counts = rows_table(0, 60), random_counts(60)
    whole = first.write_partition(0, counts, rows)
    pieces = pa.concat_tables([rows.slice(0, 7), rows.slice(7, 40), rows.slice(47)])
    assert second.write_partition(0, counts, pieces) == whole


def test_what_was_written_first_stands_until_it_is_discarded(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", 1, 50)
    fill(store, 0)
    first = store.record(0)
    assert store.write_partition(0, random_counts(3, seed=9), rows_table(0, 3)) == first
    assert store.verify(0) == []
    store.discard(0)
    store.write_partition(0, random_counts(3, seed=9), rows_table(0, 3))
    assert same(store.read_fingerprints(0), random_counts(3, seed=9))
    assert store.read_rejects(0).num_rows == 0
    recorded = {item.path for item in store.record(0).objects}
    on_disk = {
        path.relative_to(store.path).as_posix()
        for folder in ("data", "rows", "_rejects")
        for path in (store.path / folder).rglob("*")
        if path.is_file()
    }
    assert on_disk == recorded | {"data/zarr.json"}
    assert list((store.path / "_staging").iterdir()) == []


def test_what_does_not_add_up_is_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s", 1, 3)
    with pytest.raises(StoreError, match="defect of the caller"):
        store.write_partition(0, random_counts(3), rows_table(0, 2))
    with pytest.raises(StoreError, match="defect of the caller"):
        store.write_partition(0, random_counts(3, n_columns=2048), rows_table(0, 3))
    with pytest.raises(StoreError, match="rejected is given as 5, but is 0"):
        store.write_partition(0, random_counts(3), rows_table(0, 3), counts={"rejected": 5})
    with pytest.raises(StoreError, match="lacks the column 'line'"):
        store.write_partition(0, random_counts(3), rows_table(0, 3).drop_columns("line"))
    assert store.pending() == [0]
    assert list((store.path / "_staging").iterdir()) == []


def test_bytes_a_molecule_on_real_counts(data_dir: Path, tmp_path: Path) -> None:
    rdkit = pytest.importorskip("rdkit.Chem.rdFingerprintGenerator")
    from rdkit import Chem

    lines = (data_dir / "guacamol_10k.smiles").read_text().split()[:3000]
    generator = rdkit.GetMorganGenerator(radius=1)
    molecules = [Chem.MolFromSmiles(line) for line in lines]
    rows = [generator.GetSparseCountFingerprint(m).GetNonzeroElements() for m in molecules if m]
    counts = csr_of(rows, UNFOLDED)
    store = new_store(tmp_path / "s", 1, len(rows))
    record = store.write_partition(0, counts, rows_table(0, len(rows)))
    assert same(store.read_fingerprints(0), counts)
    n_bytes = sum(item.bytes for item in record.objects if item.path.startswith("data"))
    assert n_bytes < 3 * counts.nnz, "three bytes a non-zero, where plain CSR takes five"
