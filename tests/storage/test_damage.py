"""Damage is found: by pending where it shows in records and sizes, by verify and by reading where not."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from daskrf.errors import StoreError
from daskrf.storage.inspection import status, verify
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from tests.storage.strategies import fill, full_store


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def zero_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[: min(4096, len(data))] = bytes(min(4096, len(data)))
    path.write_bytes(data)


def swap_neighbours(path: Path) -> None:
    data = bytearray(path.read_bytes())
    i = next(i for i in range(len(data) - 1) if data[i] != data[i + 1])
    data[i], data[i + 1] = data[i + 1], data[i]
    path.write_bytes(data)


SILENT = (flip, zero_page, swap_neighbours)  # the size stays
VISIBLE = (truncate, Path.unlink)
GROUP = "data/000000/zarr.json"  # which no reader reads: arrays are opened by themselves
N_OBJECTS = len(("zarr.json", *("lengths", "indices", "counts") * 2, "rows", "_rejects"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete store of two partitions, to be copied."""
    return full_store(tmp_path_factory.mktemp("template") / "s", n_partitions=2, rows=30).path


@pytest.fixture
def store(template: Path, tmp_path: Path) -> FingerprintStore:
    """A store of one's own."""
    return FingerprintStore.open(shutil.copytree(template, tmp_path / "s"))


def objects(store: FingerprintStore, p: int) -> list[Path]:
    return [store.path / item.path for item in store.record(p).objects]


def read_all(store: FingerprintStore) -> tuple[object, ...]:
    return store.read_fingerprints(0), store.read_rows(0), store.read_rejects(0)


@pytest.mark.parametrize("damage", [*SILENT, *VISIBLE])
@pytest.mark.parametrize("index", range(N_OBJECTS))
def test_each_object(store: FingerprintStore, damage: Callable[[Path], None], index: int) -> None:
    records = store.records()
    assert len(objects(store, 1)) == N_OBJECTS
    damage(objects(store, 1)[index])
    report = verify(store.path)
    assert list(report.damaged) == [1]
    assert not report.sound
    assert f"`daskrf verify --repair {store.path}`" in str(report)
    assert store.pending() == ([1] if damage in VISIBLE else [])
    assert store.verify(0) == []
    store.discard(1)
    assert store.pending() == [1]
    fill(store, 1)
    assert store.records() == records
    assert verify(store.path).sound


@pytest.mark.parametrize("damage", [*SILENT, *VISIBLE])
def test_what_is_damaged_is_not_read(store: FingerprintStore, damage: Callable[[Path], None]) -> None:
    readers = {"data": store.read_fingerprints, "rows": store.read_rows, "_rejects": store.read_rejects}
    for path in objects(store, 0):
        kept = path.read_bytes()
        damage(path)
        name = path.relative_to(store.path).as_posix()
        for folder, read in readers.items():
            if folder == name.split("/")[0] and name != GROUP:
                with pytest.raises(
                    StoreError, match=rf"partition 0 of .* is damaged \({name} .*verify --repair"
                ):
                    read(0)
            else:
                read(0)
        path.write_bytes(kept)


def test_metadata_that_would_give_other_numbers_are_not_read(store: FingerprintStore) -> None:
    """Each is one flipped bit of what is well-formed without it: absent chunks, and rows that vanish."""
    for name, old, new in (
        ("indices", b'"separator": "/"', b'"separator": "."'),
        ("lengths", b"29", b"28"),
        ("counts", b'"fill_value": 0', b'"fill_value": 1'),
    ):
        path = store.partition_path(0) / name / "zarr.json"
        kept = path.read_bytes()
        assert kept.count(old) >= 1
        path.write_bytes(kept.replace(old, new, 1))
        with pytest.raises(StoreError, match=rf"{name}/zarr.json has CRC32C"):
            store.read_fingerprints(0)
        path.write_bytes(kept)


def test_files_of_other_partitions_are_not_read(store: FingerprintStore) -> None:
    """Their own checksums are right."""
    for path in objects(store, 0):
        other = store.path / path.relative_to(store.path).as_posix().replace("000000", "000001", 1)
        kept = path.read_bytes()
        if other.stat().st_size != len(kept) or other.read_bytes() == kept or path == store.path / GROUP:
            continue
        path.write_bytes(other.read_bytes())
        assert len(store.verify(0)) == 1
        with pytest.raises(StoreError, match="CRC32C"):
            read_all(store)
        path.write_bytes(kept)


def test_flips_anywhere_in_features_are_not_read(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s", 1, 101)
    store = FeatureStore.new(tmp_path / "f", source, {"class": "X"}, 64)
    phi = np.arange(800).astype(np.uint8).reshape(100, 8)
    record = store.write_partition(0, phi, source.read_rows(0))
    (chunk,) = (item.path for item in record.objects if "/c." in item.path)
    for path in [store.path / chunk]:
        data = path.read_bytes()
        for position in range(0, len(data), 37):
            path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
            with pytest.raises(StoreError, match="damaged"):
                store.read(0)
            with pytest.raises(StoreError, match="damaged"):
                list(store.blocks(0))
        path.write_bytes(data)


def test_what_a_record_does_not_name_or_count_is_not_read(store: FingerprintStore) -> None:
    """Of a writer that is not this one: its record has the right digest."""
    record = store.record(0)
    for item in record.objects:
        if item.path == GROUP:
            continue
        rest = tuple(other for other in record.objects if other != item)
        store.record_path(0).write_bytes(dataclasses.replace(record, objects=rest).to_json())
        with pytest.raises(StoreError, match=f"record does not name {item.path}"):
            read_all(store)
    for name in ("kept", "nonzeros", "rejected"):
        counts = {**record.counts, name: record.counts[name] + 1}
        store.record_path(0).write_bytes(dataclasses.replace(record, counts=counts).to_json())
        with pytest.raises(StoreError, match=r"partition 0 of .* is damaged"):
            read_all(store)
        del counts[name]
        store.record_path(0).write_bytes(dataclasses.replace(record, counts=counts).to_json())
        assert store.pending() == [0]


def test_deleted_record(store: FingerprintStore) -> None:
    store.record_path(1).unlink()
    assert store.pending() == [1]
    assert verify(store.path).missing == (1,)
    with pytest.raises(StoreError, match="never finished"):
        store.read_rows(1)


@pytest.mark.parametrize("damage", [*SILENT, truncate])
def test_damaged_record(store: FingerprintStore, damage: Callable[[Path], None]) -> None:
    damage(store.record_path(1))
    assert store.pending() == [1]
    assert list(verify(store.path).damaged) == [1]
    assert "commit record is damaged" in status(store.path).damaged[1]
    fill(store, 1)
    assert verify(store.path).sound


def test_every_flip_of_a_record_is_seen(store: FingerprintStore) -> None:
    path = store.record_path(0)
    data = path.read_bytes()
    for position in range(0, len(data), 3):
        for bit in (0x01, 0x20):
            path.write_bytes(data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :])
            assert 0 not in store.records()


def test_record_of_another_store_or_partition(tmp_path: Path) -> None:
    store = full_store(tmp_path / "s")
    other = full_store(tmp_path / "o", rows=60)
    shutil.copy(other.record_path(1), store.record_path(1))
    shutil.copy(store.record_path(0), store.record_path(2))
    assert store.pending() == [1, 2]
    problems = status(store.path).damaged
    assert "a store made from other input or with other options" in problems[1]
    assert "belongs to partition 0" in problems[2]


def test_records_outside_the_plan_and_other_files_are_ignored(store: FingerprintStore) -> None:
    for name in ("000009.json", "x.json", "1.json", "000001.json.bak"):
        (store.path / "_commits" / name).write_text("{}")
    assert store.pending() == []
    assert sorted(store.records()) == [0, 1]
    assert store.counts()["read"] == 60


def test_a_record_without_objects_on_disk_is_nothing(store: FingerprintStore) -> None:
    for folder in ("data", "rows", "_rejects"):
        shutil.rmtree(store.path / folder)
    assert store.pending() == [0, 1]


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '{"crc32c": "00000000"}', "\x00" * 200])
def test_records_that_are_something_else(store: FingerprintStore, text: str) -> None:
    store.record_path(0).write_text(text)
    assert store.pending() == [0]


def test_data_without_a_record_is_pending(store: FingerprintStore) -> None:
    record = json.loads(store.record_path(1).read_text())
    store.record_path(1).unlink()
    assert all((store.path / path).exists() for path, *_ in record["objects"])
    assert store.pending() == [1]
