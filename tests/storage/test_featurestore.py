"""The feature store: bits and floats, whole or in blocks, as one array for every tool."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import StoreError
from daskrf.storage.inspection import verify
from daskrf.storage.stores import featurestore
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from tests.storage.strategies import full_store, new_store

STATE = {"class": "X", "parameters": {"n_components": 20}}


def phi_of(store: FeatureStore, seed: int = 0) -> np.ndarray:
    """Features of all rows."""
    generator = np.random.default_rng(seed)
    if store.dtype == np.uint8:
        return generator.integers(0, 256, store.shape, dtype=np.uint8)
    return generator.standard_normal(store.shape).astype(store.dtype)


def rows_of(source: FingerprintStore) -> pa.Table:
    """All rows of a fingerprint store."""
    return pa.concat_tables([source.read_rows(p) for p in range(source.n_partitions)])


def own(store: FeatureStore, p: int) -> slice:
    """Where the rows of a partition are in the array."""
    return slice(store.first_row(p), store.first_row(p) + store.partition_rows(p))


def filled(store: FeatureStore, source: FingerprintStore, phi: np.ndarray) -> FeatureStore:
    """Write all partitions."""
    rows = rows_of(source)
    for p in range(store.n_partitions):
        store.write_partition(p, phi[own(store, p)], rows[own(store, p)])
    return store


@settings(derandomize=True, deadline=None, max_examples=15)
@given(
    n_rows=st.integers(2, 40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    n_components=st.sampled_from([1, 8, 20, 64]),
    dtype=st.sampled_from(["bits", "float32", "float16"]),
    chunk_bytes=st.sampled_from([100, 1 << 20]),
)
def test_blocks_of_any_size_give_the_same_store(
    n_rows: int, cuts: list[int], n_components: int, dtype: str, chunk_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(featurestore, "CHUNK_BYTES", chunk_bytes)
        source = full_store(Path(folder) / "s", 2, n_rows)
        store = FeatureStore.new(Path(folder) / "f", source, STATE, n_components, dtype)
        assert (store.shape[0], store.n_partitions) == (2 * (n_rows - 1), 2)
        phi, rows = phi_of(store), rows_of(source)
        for p in (0, 1):
            mine, kept = phi[own(store, p)], rows[own(store, p)]
            edges = [0, *sorted(min(cut, len(mine)) for cut in cuts), len(mine)]
            first = store.write_partition(p, mine, kept)
            store.discard(p)
            blocks = [mine[start:stop] for start, stop in itertools.pairwise(edges)]
            assert store.write_partition(p, iter(blocks), kept) == first
            assert store.read(p).dtype == phi.dtype
            assert np.array_equal(store.read(p), mine)
            assert np.array_equal(store.read(p, 3, 11), mine[3:11])
            assert np.array_equal(np.concatenate([mine[:0], *store.blocks(p)]), mine)
            assert store.read_rows(p).equals(kept.combine_chunks())
            assert store.n_rows(p) == len(mine)
        assert np.array_equal(zarr.open_array(str(store.path / "phi"), mode="r")[:], phi)
        assert verify(store.path).sound


@pytest.mark.parametrize("dtype", ["bits", "float32"])
def test_plain_tools_read_the_whole_library(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(featurestore, "CHUNK_BYTES", 200)
    source = full_store(tmp_path / "s", 3, 17)
    for p, n in ((0, 9), (1, 4)):  # of other lengths
        source.discard(p)
        rows = rows_of(full_store(tmp_path / "t", 3, 17))[17 * p : 17 * p + n]
        source.write_partition(p, full_store(tmp_path / "t", 3, 17).read_fingerprints(p)[:n], rows)
    store = FeatureStore.new(tmp_path / "f", source, STATE, 20, dtype)
    assert store.n_partitions == 2  # of 16 rows each, over three partitions of 9, 4 and 16
    assert store.parts(0) == [(0, slice(0, 9)), (1, slice(0, 4)), (2, slice(0, 3))]
    phi = phi_of(store)
    filled(store, source, phi)
    path = str(store.path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = zarr.open_array(path + "/phi", mode="r")
        assert np.array_equal(array[:], phi)
        assert array.shape == (29, 3 if dtype == "bits" else 20)
        assert np.array_equal(da.from_zarr(path + "/phi").compute(scheduler="synchronous"), phi)
        table = pandas.read_parquet(path + "/rows")
    assert list(table.columns) == ["row", "id", "smiles", "source", "line"]
    assert table["row"].tolist() == rows_of(source)["row"].to_pylist()
    assert pandas.read_parquet(tmp_path / "s" / "rows")["id"].tolist() == table["id"].tolist()
    assert store.row_bounds[1] == rows_of(source)["row"][16].as_py()


@pytest.mark.parametrize("dtype", ["bits", "float32"])
def test_xarray_reads_the_arrays(dtype: str, tmp_path: Path) -> None:
    source = full_store(tmp_path / "s", 2)
    store = FeatureStore.new(tmp_path / "f", source, STATE, 20, dtype)
    phi = phi_of(store)
    filled(store, source, phi)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xarray.open_zarr(str(store.path))
    assert np.array_equal(found["phi"].values, phi)
    assert found["phi"].dims == ("row", "byte" if dtype == "bits" else "feature")


def test_what_is_not_written_yet_is_no_number_of_floats(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s", 2)
    store = FeatureStore.new(tmp_path / "f", source, STATE, 20, "float32")
    store.write_partition(0, phi_of(store)[own(store, 0)], rows_of(source)[own(store, 0)])
    array = zarr.open_array(str(store.path / "phi"), mode="r")
    assert np.isfinite(array[own(store, 0)]).all()
    assert np.isnan(array[own(store, 1)]).all()
    with pytest.raises(StoreError, match=r"partition 1 of .* never finished"):
        store.read(1)


def test_features_of_zeros_are_on_disk(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s")
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64)
    record = store.write_partition(0, np.zeros((49, 8), np.uint8), source.read_rows(0))
    (chunk,) = (item for item in record.objects if "/c." in item.path)
    assert chunk.bytes == 49 * 8 + 4
    (store.path / chunk.path).unlink()
    with pytest.raises(StoreError, match="is missing"):
        store.read(0)


def test_metadata_of_the_array_change_no_number(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s", 1)
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64)
    phi = phi_of(store)
    filled(store, source, phi)
    for name in ("zarr.json", "phi/zarr.json"):
        path = store.path / name
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"49", b"39"))
        assert np.array_equal(FeatureStore.open(store.path).read(0), phi)
        assert list(verify(store.path).damaged) == [0]
        path.write_bytes(whole)
    assert verify(store.path).sound


def test_a_partition_that_goes_while_it_is_read_is_no_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(featurestore, "CHUNK_BYTES", 100)
    source = full_store(tmp_path / "s")
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64)
    store.write_partition(0, np.full((49, 8), 7, np.uint8), source.read_rows(0))
    words = r"partition 0 of .* is damaged \({}/.* is missing\); run `daskrf verify"
    blocks = store.blocks(0)
    next(blocks)
    store.discard(0)
    assert not list((store.path / "phi").iterdir())
    with pytest.raises(StoreError, match=words.format("phi")):
        next(blocks)
    next((source.partition_path(0) / "counts").rglob("0")).unlink()
    with pytest.raises(StoreError, match=words.format("data")):
        source.read_fingerprints(0)
    source.discard(0)
    with pytest.raises(StoreError, match="never finished"):
        source.read_fingerprints(0)


def test_other_shapes_and_types_are_refused(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s")
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64)
    rows = source.read_rows(0)
    for bad in (np.zeros((49, 64), np.float32), np.zeros((49, 9), np.uint8), np.zeros(8, np.uint8)):
        with pytest.raises(StoreError, match="defect of the caller"):
            store.write_partition(0, bad, rows)
    for n in (5, 50, 200):
        with pytest.raises(StoreError, match=rf"got {n} features and 49 rows instead of 49"):
            store.write_partition(0, iter([np.zeros((n, 8), np.uint8)]), rows)
    with pytest.raises(StoreError, match="got 49 features and 48 rows instead of 49"):
        store.write_partition(0, np.zeros((49, 8), np.uint8), rows[:48])
    with_diagonal = FeatureStore.new(tmp_path / "g", source, STATE, 64, diagonal=True)
    with pytest.raises(StoreError, match=r"got 3 values of k\(x, x\) instead of 49"):
        with_diagonal.write_partition(0, np.zeros((49, 8), np.uint8), rows, [np.ones(3)])
    assert store.pending() == [0, 1, 2]
    incomplete = new_store(tmp_path / "t")
    incomplete.write_partition(0, source.read_fingerprints(0), rows)
    with pytest.raises(StoreError, match="is not complete: 2 of 3"):
        FeatureStore.new(tmp_path / "h", incomplete, STATE, 64)


def test_the_diagonal_is_an_array_too(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s", 2)
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64, diagonal=True)
    phi, diagonal = phi_of(store), np.arange(98.0)
    for p in (0, 1):
        values = np.array_split(diagonal[own(store, p)], 3)
        store.write_partition(p, phi[own(store, p)], source.read_rows(p), values)
        np.testing.assert_array_equal(store.read_diagonal(p), diagonal[own(store, p)])
    np.testing.assert_array_equal(zarr.open_array(str(store.path / "diagonal"), mode="r")[:], diagonal)
    flipped = store.path / "diagonal" / "c.1"
    flipped.write_bytes(flipped.read_bytes()[::-1])
    with pytest.raises(StoreError, match=r"partition 1 of .* is damaged \(diagonal/c.1 has CRC32C"):
        store.read_diagonal(1)


def test_a_library_without_molecules_has_an_empty_array(tmp_path: Path) -> None:
    source = new_store(tmp_path / "s", 1, 2)
    empty = full_store(tmp_path / "t", 1, 2)
    source.write_partition(0, empty.read_fingerprints(0)[:0], empty.read_rows(0)[:0])
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64)
    store.write_partition(0, np.zeros((0, 8), np.uint8), source.read_rows(0))
    assert zarr.open_array(str(store.path / "phi"), mode="r").shape == (0, 8)
    assert list(store.blocks(0)) == []
    assert verify(store.path).sound


def test_a_store_stands_alone_until_it_is_made_again(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s")
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64)
    filled(store, source, phi_of(store))
    assert store.source().spec_hash == source.spec_hash == store.library_hash
    shutil.rmtree(source.path)
    assert store.read_rows(1)["id"][0].as_py() == "Z50"
    words = r"f was made from is not where it was \({}.*\); move it back, or run `daskrf featurize`"
    with pytest.raises(StoreError, match=words.format(".*s does not exist")):
        store.source()
    new_store(source.path, fragments="largest")
    with pytest.raises(StoreError, match=words.format(".*s is another fingerprint store")):
        store.source()


def test_a_failing_file_system_is_not_a_missing_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FeatureStore.new(tmp_path / "f", full_store(tmp_path / "s"), STATE, 64)

    def stale(*_: object) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr("daskrf.files.backend._Files.read", stale)
    with pytest.raises(StoreError, match="cannot read") as caught:
        store.source()
    assert caught.value.errno == errno.ESTALE


def test_another_map_is_refused(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s")
    FeatureStore.new(tmp_path / "f", source, STATE, 64)
    changed = {"class": "X", "parameters": {"n_components": 20, "random_state": 1}}
    with pytest.raises(StoreError, match=r"--random-state \(was not given, now 1\)"):
        FeatureStore.new(tmp_path / "f", source, changed, 64)
    with pytest.raises(StoreError, match=r"--dtype \(was bits, now float32\)"):
        FeatureStore.new(tmp_path / "f", source, STATE, 64, "float32")


@pytest.mark.parametrize("open_", [FeatureStore.open, FingerprintStore.open, lambda path: new_store(path)])
def test_stores_of_the_first_version_are_refused_by_name(open_: object, tmp_path: Path) -> None:
    plan = {"format": "daskrf", "format_version": 1, "kind": "features", "spec": {}, "partitions": 3}
    plan["provenance"] = {"daskrf": "0.1.0"}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    with pytest.raises(
        StoreError, match=r"has format version 1 \(made by daskrf 0\.1\.0\).* knows version 2 only"
    ):
        open_(tmp_path)  # type: ignore[operator]


def test_predictions_are_plain_parquet(tmp_path: Path) -> None:
    from daskrf.storage.stores.predictions import PredictionStore
    from tests.storage.strategies import rejects_table

    options = {"source": "ab" * 32, "model": "cd" * 32, "options": {}, "rows": [3, 2]}
    store = PredictionStore.new(tmp_path / "p", **options)  # type: ignore[arg-type]
    for p, (rows, bad) in enumerate((([0, 2], [1]), ([3, 4], []))):
        store.write_partition(p, pa.table({"row": rows, "mean": [1.0 * r for r in rows]}), rejects_table(bad))
    assert pq.read_table(tmp_path / "p")["mean"].to_pylist() == [0.0, 2.0, 3.0, 4.0]
    pandas = pytest.importorskip("pandas")
    assert pandas.read_parquet(tmp_path / "p")["row"].tolist() == [0, 2, 3, 4]
