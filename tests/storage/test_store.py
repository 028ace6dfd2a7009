"""Plans, records, resuming, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from daskrf.errors import StoreError
from daskrf.files.disk import TEMPORARY, crc32c_of, temporary_name
from daskrf.storage.differences import differences
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import Store
from tests.storage.strategies import fill, full_store, new_store


def test_plan_is_there_before_any_data(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    files = {path.relative_to(store.path).as_posix() for path in store.path.rglob("*") if path.is_file()}
    assert files == {"_plan.json", "zarr.json", "data/zarr.json"}
    assert store.pending() == [0, 1, 2]
    assert store.counts() == {}


def test_spec_hash_depends_on_spec_and_partitions_only(tmp_path: Path) -> None:
    hashes = [
        new_store(tmp_path / "a").spec_hash,
        new_store(tmp_path / "b", provenance={"host": "elsewhere"}).spec_hash,
        new_store(tmp_path / "c", fragments="largest").spec_hash,
        new_store(tmp_path / "d", n_partitions=4).spec_hash,
    ]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_same_spec_resumes_and_another_is_refused_key_by_key(tmp_path: Path) -> None:
    fill(new_store(tmp_path / "s"), 1)
    assert new_store(tmp_path / "s").pending() == [0, 2]
    with pytest.raises(StoreError, match="with other options") as caught:
        new_store(tmp_path / "s", fragments="reject", rdkit_version="2030.1")
    assert "--fragments (was keep, now reject)" in str(caught.value)
    assert "the version of RDKit (was 2026.09.1, now 2030.1)" in str(caught.value)
    changed = {"sources": [{"path": "a.smi", "sha256": "ff"}]}
    with pytest.raises(StoreError, match="the content of the input files has changed"):
        new_store(tmp_path / "s", library=changed)
    assert FingerprintStore.open(tmp_path / "s").pending() == [0, 2]


@pytest.mark.parametrize("version", [0, 1, "new", None])
def test_other_format_versions_are_refused_by_name(tmp_path: Path, version: object) -> None:
    new_store(tmp_path / "s")
    file = tmp_path / "s" / "_plan.json"
    plan = json.loads(file.read_text())
    plan["format_version"] = version
    plan["provenance"]["daskrf"] = "9.8.7"
    file.write_text(json.dumps(plan))
    for refuse in (lambda: Store.open(tmp_path / "s"), lambda: new_store(tmp_path / "s")):
        with pytest.raises(StoreError, match=rf"format version {version}.*daskrf 9\.8\.7"):
            refuse()


def test_edited_or_broken_plans_are_refused(tmp_path: Path) -> None:
    new_store(tmp_path / "s")
    file = tmp_path / "s" / "_plan.json"
    text = file.read_text()
    file.write_text(text.replace('"keep"', '"drop"'))
    with pytest.raises(StoreError, match="does not match its CRC32C"):
        Store.open(tmp_path / "s")
    file.write_text(text[: len(text) // 2])
    with pytest.raises(StoreError, match="damaged"):
        Store.open(tmp_path / "s")
    file.write_text("{}")
    with pytest.raises(StoreError, match="not made by daskrf"):
        Store.open(tmp_path / "s")


def test_kinds_are_not_mixed(tmp_path: Path) -> None:
    source = full_store(tmp_path / "s")
    FeatureStore.new(tmp_path / "f", source, {"class": "X"}, 64)
    with pytest.raises(StoreError, match="is a feature store, but a fingerprint store is needed here"):
        FingerprintStore.open(tmp_path / "f")
    with pytest.raises(StoreError, match="is a fingerprint store, but a feature store"):
        FeatureStore.open(tmp_path / "s")
    with pytest.raises(StoreError, match="is a fingerprint store, but a feature store"):
        FeatureStore.new(tmp_path / "s", source, {"class": "X"}, 64)
    with pytest.raises(StoreError, match="is a feature store, but a prediction store"):
        Store.open(tmp_path / "f", kind="predictions")


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not touch")
    with pytest.raises(StoreError, match="holds other files"):
        new_store(tmp_path)
    with pytest.raises(StoreError, match="is not a daskrf store"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="does not exist, or is empty"):
        Store.open(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="cannot create"):
        new_store(tmp_path / "thesis.txt")
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.txt"]


def test_counts_add_up_over_partitions(tmp_path: Path) -> None:
    store = full_store(tmp_path / "s", n_partitions=3, rows=50)
    counts = store.counts()
    assert (counts["read"], counts["kept"], counts["rejected"], counts["empty"]) == (150, 147, 3, 0)
    assert counts["nonzeros"] == sum(store.read_fingerprints(p).nnz for p in range(3))
    assert store.pending() == []
    store.require_complete()


def test_unfinished_stores_say_so(tmp_path: Path) -> None:
    store = new_store(tmp_path / "s")
    fill(store, 0)
    with pytest.raises(StoreError, match=r"s is not complete: 2 of 3 partitions are missing; run the"):
        store.require_complete()
    fill(store, 2)
    with pytest.raises(
        StoreError, match=r"s is not complete: 1 of 3 partitions are missing; .* only those\.$"
    ):
        store.require_complete()
    with pytest.raises(StoreError, match=r"partition 1 of .* never finished"):
        store.read_fingerprints(1)
    with pytest.raises(StoreError, match="partitions 0 to 2, but not 3"):
        store.read_rows(3)


def test_numpy_counts_become_numbers(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", "features", {"a": 1}, 2)
    (tmp_path / "x").write_bytes(b"123456789")
    record = store.publish(
        0, {store.partition_path(0) / "x": tmp_path / "x"}, {"kept": np.int64(3), "first": 0}
    )
    assert record.counts == {"kept": 3, "first": 0}
    assert record.objects == (("data/000000/x", 9, "e3069283", crc32c_of(b"12345")),)
    assert Store.open(tmp_path / "s").records() == {0: record}
    with pytest.raises(StoreError, match="does not say how many rows"):
        store.partition_rows(0)


def test_specifications_that_are_not_json_are_refused(tmp_path: Path) -> None:
    for bad in ({"seed": np.int64(3)}, {"noise_variance": float("nan")}):
        with pytest.raises(StoreError, match="not plain JSON"):
            Store.create(tmp_path / "s", "features", bad, 1)
    assert not (tmp_path / "s").exists()


def test_tuples_in_a_spec_resume(tmp_path: Path) -> None:
    for _ in range(2):
        store = Store.create(tmp_path / "s", "features", {"extra": ("a", "b")}, 1)
    assert store.spec == {"extra": ["a", "b"]}


def test_stale_temporary_files_are_ignored_and_cleaned(tmp_path: Path) -> None:
    store = full_store(tmp_path / "s")
    dead = f"{TEMPORARY}x~{os.uname().nodename}~{2**22 + 12345}~0123abcd"
    for directory in (store.path, store.path / "_commits", store.path / "_staging"):
        (directory / dead).write_bytes(b"half")
    (store.path / "_staging" / dead.replace("x~", "y~")).mkdir()
    alive = store.path / "_staging" / temporary_name("000001")
    alive.mkdir()
    assert store.pending() == []
    assert all(store.verify(p) == [] for p in range(3))
    new_store(store.path)
    left = [item.name for item in store.path.rglob(f"{TEMPORARY}*")]
    assert left == [alive.name], "what a living process works on stays"
    store.clean(finished=True)
    assert not alive.exists(), "unless there is nothing to do any more"


def test_names_of_differences_are_limited() -> None:
    old, new = {f"k{i}": 0 for i in range(9)}, {f"k{i}": 1 for i in range(9)}
    assert differences(old, new, limit=2) == "k0 (was 0, now 1), k1 (was 0, now 1) and 7 more"
    assert differences({"a": []}, {"a": [1]}) == "a (was [], now [1])"
    assert differences({"a": []}, {"a": ["x"]}) == "a[0] (was none, now x)", "its items say it"
