"""Stores that somebody made by hand, to be read by others: one sentence, and nothing outside is touched."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskrf.errors import DaskrfError, StoreError
from daskrf.files.backend import backend
from daskrf.storage.inspection import status, verify
from daskrf.storage.integrity import StoredObject, as_damage, sealed, unsealed
from daskrf.storage.kinds import kind_of
from daskrf.storage.model import load_model, read_checkpoint, save_model
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.storage.stores.store import ARRAYS_FILE, FORMAT_VERSION, PLAN_FILE, Store, plan_hash
from tests.storage.strategies import full_store, new_store

DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return full_store(tmp_path_factory.mktemp("template") / "s", n_partitions=2, rows=30).path


@pytest.fixture
def store(template: Path, tmp_path: Path) -> FingerprintStore:
    """A store of one's own, beside a folder of somebody's."""
    (tmp_path / "home" / "000000").mkdir(parents=True)
    (tmp_path / "home" / "000000" / "thesis.txt").write_text("do not touch")
    (tmp_path / "home" / "secret").write_text("do not read")
    return FingerprintStore.open(shutil.copytree(template, tmp_path / "s"))


def everything(path: Path) -> None:
    """Do with a fingerprint store all that reads it, and what `verify --repair` takes out."""
    status(path).to_json()
    str(status(path))
    report = verify(path)
    str(report)
    opened = FingerprintStore.open(path)
    for p in range(opened.n_partitions):
        opened.read_fingerprints(p)
        opened.read_rows(p)
        opened.read_rejects(p)


def forge_record(store: Store, p: int, **changes: Any) -> None:
    """Write a record that has its digest."""
    record = dataclasses.replace(store.record(p), **changes)
    body = {
        "format_version": FORMAT_VERSION,
        "partition": record.partition,
        "spec_hash": record.spec_hash,
    }
    body |= {"counts": record.counts, "objects": [item[:3] for item in record.objects]}
    body |= {"bodies": [item.body for item in record.objects]}
    store.record_path(p).write_bytes(sealed(json.dumps(body).encode()))


def forge_plan(path: Path, **changes: Any) -> None:
    """Change a plan, and give it the hash of what it is then."""
    plan = json.loads((path / "_plan.json").read_bytes()) | changes
    del plan["crc32c"]
    plan["spec_hash"] = plan_hash(plan)
    (path / "_plan.json").write_bytes(sealed(json.dumps(plan).encode()))


@pytest.mark.parametrize(
    "name",
    [
        "../../../../../../../dev/zero",
        "/dev/zero",
        "../home/secret",
        "rows/../../home/secret",
        "rows/000001.parquet",
        "data/000001/zarr.json",
        "data/000000/../../../home/secret",
        "data/000000/.hidden",
        "data/000000//zarr.json",
        "data/000000",
        "_plan.json",
        "_commits/000000.json",
        "rows/000000.parquet\n",
        "",
        7,
        None,
        [["rows/000000.parquet"]],
    ],
)
def test_a_record_names_files_of_its_partition_only(store: FingerprintStore, name: Any) -> None:
    forge_record(store, 0, objects=(*store.record(0).objects, StoredObject(name, 11, "00000000", "00000000")))
    assert store.pending() == [0]
    assert "its commit record is damaged" in verify(store.path).damaged[0][0]
    with pytest.raises(StoreError, match="commit record is damaged"):
        store.read_rows(0)


@pytest.mark.parametrize("name", ["rows/000000.parquet", "data/000000/indices/c/0", "_commits/000000.json"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_is_no_regular_file_is_not_read(store: FingerprintStore, name: str, kind: str) -> None:
    path = store.path / name
    copy = path.rename(path.parents[len(path.relative_to(store.path).parts)] / "home" / "copy")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(copy)
    else:
        path.mkdir()
    assert list(verify(store.path).damaged) == [0]
    with pytest.raises(StoreError, match=r"partition 0 of .* (is damaged|cannot be read)"):
        store.read_fingerprints(0) is None or store.read_rows(0)


@pytest.mark.parametrize("name", ["data/000000", "data/000000/indices", "data/000000/indices/c"])
def test_no_link_is_followed_on_the_way(store: FingerprintStore, name: str) -> None:
    """Although what it leads to is right to the bit."""
    path = store.path / name
    path.symlink_to(path.rename(store.path.parent / "home" / "copy"))
    assert all("is a link, or not a regular file" in problem for problem in verify(store.path).damaged[0])
    with pytest.raises(StoreError, match=r"partition 0 of .* is damaged .*is a link, or not a regular file"):
        store.read_fingerprints(0)


def test_a_pipe_in_place_of_a_plan_or_a_model_is_none(tmp_path: Path) -> None:
    for name in (PLAN_FILE, ARRAYS_FILE):
        (tmp_path / name).mkdir(parents=True) if name == ARRAYS_FILE else os.mkfifo(tmp_path / name)
        for look in (Store.open, load_model, verify, kind_of):
            with pytest.raises(StoreError):
                look(tmp_path)
        assert str(status(tmp_path)).startswith(f"{tmp_path}: a folder with 0 outputs of daskrf")


@pytest.mark.parametrize("folder", ["data", "rows", "_rejects", "_commits", "_staging"])
def test_a_store_whose_folders_are_links_is_refused(store: FingerprintStore, folder: str) -> None:
    home = store.path.parent / "home"
    if (store.path / folder).exists():
        shutil.rmtree(store.path / folder)
    (store.path / folder).symlink_to(home)
    for open_ in (FingerprintStore.open, status, verify, lambda path: new_store(path, 2, 30)):
        with pytest.raises(StoreError, match=rf"{folder} is a link, but a store must hold its files itself"):
            open_(store.path)
    assert sorted(item.name for item in home.rglob("*")) == ["000000", "secret", "thesis.txt"]


def test_links_within_are_deleted_and_not_what_they_lead_to(store: FingerprintStore) -> None:
    home = store.path.parent / "home"
    shutil.rmtree(store.path / "data" / "000000")
    (store.path / "data" / "000000").symlink_to(home / "000000")
    (store.path / "data" / "000001" / "indices" / "more").symlink_to(home)
    assert list(verify(store.path).damaged) == [0]
    store.discard(0)
    store.discard(1)
    assert not os.path.lexists(store.path / "data" / "000000")
    assert (home / "000000" / "thesis.txt").read_text() == "do not touch"


def test_a_store_may_be_reached_by_a_link(store: FingerprintStore) -> None:
    link = store.path.with_name("link")
    link.symlink_to(store.path)
    everything(link)
    assert new_store(link, 2, 30).pending() == []


def test_names_that_lead_upwards_are_not_opened(store: FingerprintStore) -> None:
    for name in ("../home/secret", "rows/../_plan.json", "", ".", "rows/"):
        with pytest.raises(ValueError, match="not a name below"):
            backend(store.path).open(store.path, name)
    with backend(store.path).open(store.path, "_plan.json") as file:
        assert file.read(1) == b"{"


VALUES: list[Any] = [None, True, -1, 1.5, 10**30, "x", [], {}, [[]], "\x1b[2J\u202e", float("nan")]


def sentence(call: Callable[[], Any]) -> str | None:
    """Return the one sentence that a call ends in, or None; any other error is a defect."""
    found: str | None = None
    try:
        call()
    except DaskrfError as error:
        found = str(error)
    assert found is None or (found.isprintable() and len(found) < 2_000)
    return found


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_records_of_wrong_types(store: FingerprintStore, value: Any) -> None:
    record = store.record(0)
    first = record.objects[0]
    forged: list[dict[str, Any]] = [{name: value} for name in ("partition", "spec_hash", "counts")]
    forged += [{"objects": [first._replace(**{name: value})]} for name in first._fields]
    forged += [{"counts": {**record.counts, name: value}} for name in record.counts]
    for changes in forged:
        forge_record(store, 0, **changes)
        found = sentence(lambda: everything(store.path))
        assert found is not None or changes == {"objects": [first]}
        store.record_path(0).write_bytes(record.to_json())
    everything(store.path)


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("kind", ["fingerprints", "features", "predictions"])
def test_plans_of_wrong_types(store: FingerprintStore, tmp_path: Path, kind: str, value: Any) -> None:
    if kind == "fingerprints":
        made: Store = store
    elif kind == "features":
        made = FeatureStore.new(tmp_path / "f", store, {"class": "X"}, 64)
    else:
        made = PredictionStore.new(tmp_path / "p", source="a" * 64, model="b" * 64, options={}, rows=[3, 4])
    text = (made.path / "_plan.json").read_bytes()
    plan = json.loads(text)
    forged: list[dict[str, Any]] = [{name: value} for name in ("kind", "spec", "partitions", "provenance")]
    forged += [{"format": value}, {"format_version": value}, {"partitions": [value]}]
    forged += [{"spec": {**plan["spec"], name: value}} for name in plan["spec"]]
    forged += [{"partitions": [{**plan["partitions"][0], name: value}]} for name in ("start", "rows")]
    forged += [{"provenance": {**plan["provenance"], name: value}} for name in plan["provenance"]]
    for changes in forged:
        try:
            forge_plan(made.path, **changes)
        except ValueError:  # it has no hash
            assert isinstance(value, float)
            (made.path / "_plan.json").write_bytes(sealed(json.dumps({**plan, **changes}).encode()))

        def use() -> None:
            found = status(made.path)
            assert all(line.isprintable() for line in str(found).splitlines())
            found.to_json()
            opened = type(made).open(made.path)
            [opened.partition_rows(p) for p in range(opened.n_partitions)]
            verify(made.path)
            if isinstance(opened, FeatureStore):
                opened.source()
                opened.read(0)

        sentence(use)
        sentence(lambda: type(made).create(made.path, made.kind, made.spec, made.partitions))
        (made.path / "_plan.json").write_bytes(text)


@pytest.mark.parametrize(
    "data", [DEEP, sealed(b'{"a":%s}' % DEEP), b"\xff\xfe", b"", b"null", b'"' * 9, b"1" * 5000]
)
def test_text_that_is_no_object(store: FingerprintStore, data: bytes) -> None:
    store.record_path(0).write_bytes(data)
    assert "its commit record is damaged" in verify(store.path).damaged[0][0]
    (store.path / "_plan.json").write_bytes(data)
    for look in (Store.open, status, verify, kind_of):
        with pytest.raises(StoreError, match=r"is damaged, or not a daskrf file|was not made by daskrf"):
            look(store.path)


@pytest.mark.parametrize("depth", [50, 200, 450, 900])
def test_deep_specifications(store: FingerprintStore, depth: int) -> None:
    """So deep that some of what is done with them goes, and some does not."""
    deep: dict[str, Any] = {}
    for _ in range(depth):
        deep = {"kernel": deep}
    plan = json.loads((store.path / "_plan.json").read_bytes())
    try:
        forge_plan(store.path, spec={**plan["spec"], "fingerprint": deep, "library": deep})
    except RecursionError:
        pytest.skip("Python writes none that is so deep")
    sentence(lambda: everything(store.path))
    assert sentence(lambda: new_store(store.path, 2, 30))
    for changes in ({"spec": {**plan["spec"], "rdkit": deep}}, {"provenance": {"host": deep}}):
        forge_plan(store.path, **{**plan, **changes})
        assert sentence(lambda: everything(store.path))


def test_a_plan_of_more_partitions_than_there_are(store: FingerprintStore) -> None:
    forge_plan(store.path, partitions=10**12)
    for look in (Store.open, status, verify):
        with pytest.raises(StoreError, match="its number of partitions is impossible"):
            look(store.path)


def test_escapes_in_a_plan_do_not_reach_the_terminal(store: FingerprintStore) -> None:
    plan = json.loads((store.path / "_plan.json").read_bytes())
    escapes = "\x1b]0;gone\x07\x9b31m\u202e\r\nall is well"
    forge_plan(
        store.path,
        provenance={**plan["provenance"], "host": escapes},
        spec={**plan["spec"], "rdkit": escapes},
    )
    lines = str(status(store.path)).split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("all is well") for line in lines)
    assert sum(r"\x1b]0;gone\x07\x9b31m\u202e\r\nall is well" in line for line in lines) == 2


def forge_model(path: Path, record: Any) -> None:
    """Replace the record of a model by another that has its CRC32C, or by some bytes."""
    path.write_bytes(record if isinstance(record, bytes) else sealed(json.dumps(record).encode()))


def refused(path: Path, words: str) -> None:
    for look in (load_model, lambda path: load_model(path, names=[])):
        with pytest.raises(StoreError, match=words):
            look(path)
    assert read_checkpoint(path, "h") is None


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "arrays-0123456789abcdef/../../x", "other/gram/c.0"]
)
def test_a_model_names_no_files_but_its_own(tmp_path: Path, name: str) -> None:
    path = save_model(tmp_path, {"gram": np.arange(999.0)}, {"targets": ["y"]})
    record = unsealed(path.read_bytes())
    for forged in ({"objects": [[name, *record["objects"][0][1:]]]}, {"group": name}, {"objects": []}):
        forge_model(path, {**record, **forged})
        with pytest.raises(StoreError, match="is damaged, or not a daskrf file"):
            load_model(tmp_path)
        assert not verify(tmp_path).sound or forged == {"objects": []}


@pytest.mark.parametrize("n", [3, 30])  # in the record, and in a file
@pytest.mark.parametrize(
    "shape", [[2**40, 3], [2**31], [10**30], [-1, 3], [3.0, 3], "33", None, [], [3, 2**33]]
)
def test_a_model_of_impossible_shapes(tmp_path: Path, shape: Any, n: int) -> None:
    path = save_model(tmp_path, {"gram": np.triu(np.ones((n, n)))}, {"targets": ["y"]})
    record = unsealed(path.read_bytes())
    record["entries"]["gram"]["shape"] = shape
    forge_model(path, record)
    with pytest.raises(StoreError, match="is damaged, or not a daskrf file"):
        load_model(tmp_path)


@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.parametrize("value", [*VALUES, "|O", "<U100000000", "<M8[s]", "V9"], ids=repr)
def test_a_model_of_wrong_types(tmp_path: Path, value: Any, n: int) -> None:
    path = save_model(tmp_path, {"gram": np.arange(n * n).reshape(n, n)}, {"targets": ["y"]})
    header = unsealed(path.read_bytes())
    forged = [{**header, name: value} for name in header]
    forged += [
        {**header, "entries": {"gram": {**header["entries"]["gram"], k: value}}}
        for k in header["entries"]["gram"]
    ]
    forged += [
        {**header, "provenance": {"host": value}},
        {**header, "metadata": {"targets": value, "map": value}},
    ]
    for changed in forged:
        forge_model(path, changed)
        sentence(lambda: load_model(tmp_path))
        sentence(lambda: str(status(tmp_path)) + status(tmp_path).to_json())
        verify(tmp_path)
    forge_model(path, {**header, "entries": {"gram": {**header["entries"]["gram"], "dtype": value}}})
    refused(tmp_path, "is damaged, or not a daskrf file")


def test_deep_metadata_of_a_model(tmp_path: Path) -> None:
    path = save_model(tmp_path, {"gram": np.arange(9)}, {})
    forge_model(path, DEEP)
    refused(tmp_path, "nested too deeply")


def test_what_makes_no_sense_is_one_sentence() -> None:
    def deep(n: int) -> int:
        return deep(n + 1)

    calls: list[Callable[[], Any]] = [
        lambda: {}["a"],
        lambda: [][0],
        lambda: None.a,  # type: ignore[attr-defined]
        lambda: int("x"),
        lambda: 1 // 0,
        lambda: deep(0),
        lambda: np.empty(2**62, np.uint8),
    ]
    for call in calls:
        with pytest.raises(StoreError, match=r"^x .*; make it again$"), as_damage("x", "make it again"):
            call()
    with pytest.raises(OSError, match="of the disk"), as_damage("x"):
        raise OSError("of the disk")
