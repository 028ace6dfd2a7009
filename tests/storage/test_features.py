"""The feature store: bits and floats, whole or in blocks."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import StoreError
from daskrf.storage import features
from daskrf.storage.features import FeatureStore
from tests.storage.strategies import full_store, new_store

STATE = {"class": "X", "parameters": {"n_components": 20}}


@settings(derandomize=True, deadline=None, max_examples=15)
@given(
    n_rows=st.integers(0, 40),
    cuts=st.lists(st.integers(0, 40), max_size=5),
    n_components=st.sampled_from([1, 8, 20, 64]),
    dtype=st.sampled_from(["bits", "float32", "float16"]),
    chunk_bytes=st.sampled_from([100, 1 << 20]),
)
def test_blocks_of_any_size_give_the_same_store(
    n_rows: int, cuts: list[int], n_components: int, dtype: str, chunk_bytes: int
) -> None:
    generator = np.random.default_rng(n_rows)
    edges = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "CHUNK_BYTES", chunk_bytes)
        source = new_store(Path(folder) / "s", 2, n_rows)
        store = FeatureStore.new(Path(folder) / "f", source, STATE, n_components, dtype)
        shape = (n_rows, store.n_stored_columns)
        if dtype == "bits":
            phi = generator.integers(0, 256, shape, dtype=np.uint8)
        else:
            phi = generator.standard_normal(shape).astype(dtype)
        blocks = [phi[start:stop] for start, stop in itertools.pairwise(edges)]
        first = store.write_partition(0, phi)
        second = store.write_partition(1, iter(blocks), n_rows=n_rows)
        assert [item.crc32c for item in first.objects] == [item.crc32c for item in second.objects]
        for p in (0, 1):
            assert store.read(p).dtype == phi.dtype
            assert np.array_equal(store.read(p), phi)
            assert np.array_equal(store.read(p, 3, 11), phi[3:11])
            assert np.array_equal(np.concatenate([phi[:0], *store.blocks(p)]), phi)
            assert store.n_rows(p) == n_rows


def test_features_of_zeros_are_on_disk(tmp_path: Path) -> None:
    store = FeatureStore.new(tmp_path / "f", new_store(tmp_path / "s"), STATE, 64)
    record = store.write_partition(0, np.zeros((100, 8), np.uint8))
    assert record.bytes > 800
    (chunk,) = (item for item in record.objects if "/c/" in item.path)
    (store.path / chunk.path).unlink()
    with pytest.raises(StoreError, match="is missing"):
        store.read(0)


def test_a_partition_that_goes_while_it_is_read_is_no_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "CHUNK_BYTES", 100)
    source = full_store(tmp_path / "s")
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64)
    store.write_partition(0, np.full((50, 8), 7, np.uint8))
    words = r"partition 0 of .* is damaged \(data/.* is missing\); run `daskrf verify"
    blocks = store.blocks(0)
    next(blocks)
    store.discard(0)
    with pytest.raises(StoreError, match=words):
        next(blocks)
    next((source.partition_path(0) / "counts").rglob("0")).unlink()
    with pytest.raises(StoreError, match=words):
        source.read_fingerprints(0)
    source.discard(0)
    with pytest.raises(StoreError, match="never finished"):
        source.read_fingerprints(0)


def test_other_shapes_and_types_are_refused(tmp_path: Path) -> None:
    store = FeatureStore.new(tmp_path / "f", new_store(tmp_path / "s"), STATE, 64)
    for bad in (np.zeros((5, 64), np.float32), np.zeros((5, 9), np.uint8), np.zeros(8, np.uint8)):
        with pytest.raises(StoreError, match="defect of the caller"):
            store.write_partition(0, bad)
    with pytest.raises(StoreError, match="got 5 rows instead of 6"):
        store.write_partition(0, iter([np.zeros((5, 8), np.uint8)]), n_rows=6)
    with pytest.raises(StoreError, match="need n_rows"):
        store.write_partition(0, iter([np.zeros((5, 8), np.uint8)]))
    assert store.pending() == [0, 1, 2]


def test_source_is_found_and_checked(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s")
    store = FeatureStore.new(tmp_path / "f", source, STATE, 64)
    assert store.source().spec_hash == source.spec_hash
    assert store.partition_rows(0) == source.partition_rows(0)
    shutil.rmtree(source.path)
    new_store(source.path, fragments="largest")
    with pytest.raises(
        StoreError, match=r"f was made from is not at .*s \(another fingerprint store\); move"
    ):
        store.source()
    shutil.rmtree(source.path)
    with pytest.raises(StoreError, match=r"f was made from is not at .*s \(no store there\); move it back"):
        store.source()
    FeatureStore.new(source.path, full_store(tmp_path / "t"), STATE, 64)
    with pytest.raises(StoreError, match="is a feature store, but a fingerprint store is needed"):
        store.source()


def test_source_is_found_when_both_have_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = full_store(tmp_path / "old" / "fp" / "s")
    FeatureStore.new(tmp_path / "old" / "phi" / "f", source, STATE, 64)
    (tmp_path / "old").rename(tmp_path / "new")
    store = FeatureStore.open(tmp_path / "new" / "phi" / "f")
    assert store.source().path == tmp_path / "new" / "fp" / "s"
    monkeypatch.chdir(tmp_path / "new" / "phi")
    assert FeatureStore.open("f").source().spec_hash == source.spec_hash
    new_store(source.path, fragments="largest")
    assert store.source().path == tmp_path / "new" / "fp" / "s", "another store has taken the old place"
    shutil.rmtree(tmp_path / "new" / "fp")
    words = (
        r"new/phi/f was made from is not at .*/old/fp/s \(another .*\) nor at .*/new/fp/s \(no store there\)"
    )
    with pytest.raises(StoreError, match=words):
        store.source()


def test_a_failing_file_system_is_not_a_missing_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FeatureStore.new(tmp_path / "f", full_store(tmp_path / "s"), STATE, 64)

    def stale(*_: object) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr("daskrf.storage.backend._Files.read", stale)
    with pytest.raises(StoreError, match="cannot read") as caught:
        store.source()
    assert caught.value.errno == errno.ESTALE


def test_another_map_is_refused(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s")
    FeatureStore.new(tmp_path / "f", source, STATE, 64)
    changed = {"class": "X", "parameters": {"n_components": 20, "random_state": 1}}
    with pytest.raises(StoreError, match=r"spec\.map\.parameters\.random_state \(was absent, now 1\)"):
        FeatureStore.new(tmp_path / "f", source, changed, 64)
    with pytest.raises(StoreError, match=r'spec\.dtype \(was "bits", now "float32"\)'):
        FeatureStore.new(tmp_path / "f", source, STATE, 64, "float32")
