"""Stores, models and checkpoints on an object storage: the same bytes, committed by conditional PUT."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from daskrf.errors import StoreError
from daskrf.files.backend import _Objects, as_path
from daskrf.storage import inspection
from daskrf.storage.integrity import load_array, save_array
from daskrf.storage.model import (
    find_checkpoint,
    load_model,
    read_checkpoint,
    save_model,
    write_checkpoint,
)
from daskrf.storage.stores import featurestore
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import Store
from tests.objects.remote import OBJECTS, Remote
from tests.storage.strategies import fill, full_store, new_store


def contents(store: Path | Remote) -> dict[str, bytes]:
    """Return every file of a store but its plan, which holds the time."""
    files = [path for path in store.rglob("*") if path.is_file()]
    return {
        path.relative_to(store).as_posix(): path.read_bytes() for path in files if path.name != "_plan.json"
    }


def test_a_store_of_objects_has_the_bytes_of_a_local_one(bucket, tmp_path):
    local, remote = full_store(tmp_path / "s"), full_store(bucket / "runs" / "s")
    assert contents(remote.path) == contents(local.path)
    assert remote.spec_hash == local.spec_hash
    opened = FingerprintStore.open(remote.path)
    for p in range(3):
        assert (opened.read_fingerprints(p) != local.read_fingerprints(p)).nnz == 0
        assert opened.read_rows(p).equals(local.read_rows(p))
        assert opened.read_rejects(p).equals(local.read_rejects(p))
    assert opened.records() == local.records()
    assert opened.counts() == local.counts()
    assert opened.pending() == []
    assert (
        str(inspection.status(remote.path)).splitlines()[1:-1]
        == (str(inspection.status(local.path)).splitlines()[1:-1])
    )
    assert inspection.verify(remote.path).sound


def test_features_stand_alone_after_a_move(bucket):
    source = full_store(bucket / "runs" / "s", n_partitions=1)
    store = FeatureStore.new(bucket / "runs" / "f", source, {"class": "X"}, 64)
    n_rows = source.record(0).counts["kept"]
    phi = np.random.default_rng(0).integers(0, 256, (n_rows, 8), dtype=np.uint8)
    store.write_partition(0, [phi[:10], phi[10:]], source.read_rows(0))
    np.testing.assert_array_equal(store.read(0, 3, 9), phi[3:9])
    np.testing.assert_array_equal(np.concatenate(list(store.blocks(0))), phi)
    assert store.source().path == source.path
    store_rows = source.read_rows(0)
    for path in (bucket / "runs" / "f").rglob("*"):
        (bucket / "moved" / path.relative_to(bucket / "runs")).write_bytes(path.read_bytes())
    OBJECTS.remove(bucket / "runs")
    moved = FeatureStore.open(bucket / "moved" / "f")
    np.testing.assert_array_equal(moved.read(0), phi)
    assert moved.read_rows(0).equals(store_rows)
    with pytest.raises(StoreError, match="is not where it was"):
        moved.source()


def test_a_partition_that_goes_while_it_is_read_is_no_zeros(bucket, monkeypatch):
    monkeypatch.setattr(featurestore, "CHUNK_BYTES", 100)
    source = full_store(bucket / "s", n_partitions=1)
    store = FeatureStore.new(bucket / "f", source, {"class": "X"}, 64)
    store.write_partition(0, np.full((49, 8), 7, np.uint8), source.read_rows(0))
    blocks = store.blocks(0)
    next(blocks)
    store.discard(0)
    with pytest.raises(StoreError, match=r"partition 0 of .* is damaged \(phi/.* is missing\)"):
        next(blocks)


def test_what_is_gone_or_damaged_is_found_and_made_again(bucket):
    store = full_store(bucket / "s")
    whole = contents(store.path)
    (store.object_paths(0)[1]).unlink()
    chunk = next(path for path in store.partition_path(1).rglob("0") if "indices" in str(path))
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(bytes(data))
    store.record_path(2).write_bytes(store.record_path(2).read_bytes()[:-3])
    assert store.pending() == [0, 2]  # sizes tell
    assert set(store.survey().damaged) == {0, 2}
    found = inspection.verify(store.path).damaged
    assert set(found) == {0, 1, 2}
    assert "CRC32C" in found[1][0]
    with pytest.raises(
        StoreError, match=r"partition 0 of s3://.* is damaged \(rows/000000.parquet is missing\)"
    ):
        store.read_rows(0)
    with pytest.raises(StoreError, match=r"partition 1 of s3://.* is damaged"):
        store.read_fingerprints(1)
    for p in found:
        store.discard(p)
        fill(store, p)
    assert contents(store.path) == whole


def test_data_without_a_record_are_pending_and_replaced(bucket):
    store, other = new_store(bucket / "a"), full_store(bucket / "b")
    fill(store, 0)
    whole = contents(other.path)
    store.record_path(0).unlink()
    assert store.pending() == [0, 1, 2]
    for path in store.partition_path(0).rglob("*"):
        path.write_bytes(b"of a writer that was killed")
    for p in range(3):
        fill(store, p)
    assert contents(store.path) == whole


def test_a_record_of_the_same_bytes_that_came_first_stands(bucket):
    store = new_store(bucket / "s")
    created = []

    def late(objects, path, data):
        path.write_bytes(data)  # the other writer, which has the same data, is a moment faster
        created.append(path)
        return original(objects, path, data)

    original = _Objects._put_new
    with patch.object(_Objects, "_put_new", late):
        fill(store, 1)
    assert created == [store.record_path(1)]
    assert store.pending() == [0, 2]
    assert store.verify(1) == []


def record_of_other_bytes(store: Store, p: int) -> bytes:
    """Return a valid record of `p` by which its first object has another digest than it has."""
    record = store.record(p)
    first = record.objects[0]._replace(crc32c="00000000")
    return dataclasses.replace(record, objects=(first, *record.objects[1:])).to_json()


@pytest.mark.parametrize("mixed", [False, True])
def test_of_two_writers_the_record_that_is_true_stands(bucket, mixed):
    store = full_store(bucket / "s")
    foreign = record_of_other_bytes(store, 1)
    store.discard(1)

    def late(objects, path, data):
        if path == store.record_path(1):
            path.write_bytes(foreign)
            if mixed:  # the data are those of neither
                store.rows_path(1).write_bytes(b"of the other writer")
        return original(objects, path, data)

    original = _Objects._put_new
    with patch.object(_Objects, "_put_new", late):
        if mixed:
            with pytest.raises(StoreError, match="written by two processes") as caught:
                fill(store, 1)
            assert caught.value.errno is not None  # so that the task is tried again
        else:
            fill(store, 1)
    assert store.pending() == ([1] if mixed else [])
    fill(store, 1)
    assert store.verify(1) == []


def test_a_plan_that_came_first_stands(bucket):
    with patch.object(Store, "open"):
        new_store(bucket / "s")
    plan = (bucket / "s" / "_plan.json").read_bytes()
    new_store(bucket / "s", provenance={"host": "elsewhere"})
    assert (bucket / "s" / "_plan.json").read_bytes() == plan
    with pytest.raises(StoreError, match="with other options"):
        new_store(bucket / "s", fragments="reject")
    (bucket / "t" / "thesis.txt").write_bytes(b"do not touch")
    with pytest.raises(StoreError, match="holds other files"):
        new_store(bucket / "t")
    with pytest.raises(StoreError, match="is not a daskrf store"):
        Store.open(bucket / "t")


def test_models_and_checkpoints(bucket, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"gram": rng.standard_normal((40, 40)), "weights": rng.standard_normal(40)}
    save_model(bucket / "m", arrays, {"targets": ["y"]})
    found = load_model(bucket / "m")
    assert {name: a.tobytes() for name, a in found.arrays.items()} == {
        name: a.tobytes() for name, a in arrays.items()
    }
    assert inspection.status(bucket / "m").complete
    write_checkpoint(bucket / "c", arrays, {}, "hash")
    write_checkpoint(tmp_path / "c", arrays, {}, "hash")
    assert contents(bucket / "c") == contents(tmp_path / "c")
    assert read_checkpoint(bucket / "c", "other") is None
    assert read_checkpoint(bucket / "absent", "hash") is None
    (chunk,) = (path for path in (bucket / "c").rglob("c.*") if "gram" in str(path))
    chunk.write_bytes(chunk.read_bytes()[:-100])
    assert find_checkpoint(bucket / "c", "hash") is None
    (bucket / "m" / "_arrays.json").unlink()
    with pytest.raises(StoreError, match="holds no model"):
        load_model(bucket / "m")
    with pytest.raises(StoreError, match="holds no model"):
        load_model(bucket / "nowhere")


def test_the_first_of_several_checkpoints_stays(bucket):
    for number, keep in ((0, True), (1, True), (2, False)):
        write_checkpoint(bucket / "draw", {"a": np.array(number)}, {}, "h", keep=keep)
        assert read_checkpoint(bucket / "draw", "h").arrays["a"] == (2 if number == 2 else 0)


def test_the_record_of_a_large_checkpoint_is_read_by_itself(bucket):
    noise = np.random.default_rng(0).integers(0, 2**62, 2_000_000)
    write_checkpoint(bucket / "c", {"a": noise, "b": noise[:1000]}, {}, "hash")  # 16 MB, two chunks
    assert sum(OBJECTS.sizes(bucket / "c").values()) > 15_000_000
    fetched = []

    def counted(objects, path, inside=None, most=None):
        data = read(objects, path, inside, most)
        fetched.append(len(data))
        return data

    read = _Objects.read
    with patch.object(_Objects, "read", counted):
        assert find_checkpoint(bucket / "c", "hash") is not None
    assert sum(fetched) < 10_000
    found = read_checkpoint(bucket / "c", "hash")
    np.testing.assert_array_equal(found.arrays["a"], noise)


def test_arrays_of_tasks_are_fetched_and_mapped(bucket, tmp_path):
    values = np.arange(1000.0)
    digests = {save_array(path / "y.npy", values) for path in (tmp_path, bucket)}
    (digest,) = digests
    for path in (tmp_path, bucket):
        np.testing.assert_array_equal(load_array(path / "y.npy", digest), values)
        with pytest.raises(StoreError, match="is damaged"):
            load_array(path / "y.npy", "00000000")
    with pytest.raises(StoreError, match=r"cannot read s3://.*/absent\.npy: no such file"):
        load_array(bucket / "absent.npy", digest)


def test_a_bucket_that_is_not_there_is_named(endpoint):
    with pytest.raises(StoreError, match=r"cannot .* s3://absent/s.*: there is no bucket absent"):
        new_store(as_path("s3://absent/s"))
