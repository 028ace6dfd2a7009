"""Objects as paths."""

from __future__ import annotations

import errno
import os
import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import daskrf
from daskrf.errors import InputError, StoreError
from daskrf.files import backend as module
from daskrf.files.backend import Url, absolute, as_path, sizes_of
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.tables import expand
from tests.objects.remote import OBJECTS


def test_local_names_stay_paths(tmp_path):
    assert as_path("a/b.smi") == Path("a/b.smi")
    assert as_path(tmp_path) == tmp_path


def test_a_url_has_the_parts_of_a_path(endpoint):
    path = as_path("s3://bucket/runs/real.work/")
    assert isinstance(path, Url)
    assert (path.bucket, path.key, absolute(path)) == ("bucket", "runs/real.work", str(path))
    assert str(path) == "s3://bucket/runs/real.work"
    assert (path.name, path.stem, path.suffix, str(path.parent)) == (
        "real.work",
        "real",
        ".work",
        "s3://bucket/runs",
    )
    assert path.with_name(".x").with_suffix(".parquet") == as_path("s3://bucket/runs/.x.parquet")
    assert (path / "data" / "0").relative_to(path).as_posix() == "data/0"
    assert pickle.loads(pickle.dumps(path)) == as_path(path)
    assert hash(path) == hash(as_path(str(path)))


def test_a_function_of_local_files_fails_at_once(endpoint):
    with pytest.raises(TypeError):
        os.fspath(as_path("s3://bucket/key"))
    with pytest.raises(TypeError):
        os.stat(as_path("s3://bucket/key"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("gs://bucket/key", "cannot be used"),
        ("s3://", "does not name an object"),
        ("s3://bucket/a//b", "does not name an object"),
        ("s3://bucket/../b", "does not name an object"),
        (Path("s3://bucket/key"), "give the URL as text"),
    ],
)
def test_what_is_no_object_is_refused(given, words, endpoint):
    with pytest.raises(InputError, match=words):
        as_path(given)


def test_bytes_and_listings(bucket):
    folder = bucket / "a b" / "ü%20"
    for name in ("x", "deep/y", "deep/z"):
        (folder / name).write_bytes(name.encode())
    assert (folder / "deep" / "y").read_bytes() == b"deep/y"
    assert OBJECTS.sizes(folder) == {"x": 1, "deep/y": 6, "deep/z": 6}
    assert sorted(item.name for item in folder.iterdir()) == ["deep", "x"]
    assert folder.exists()
    assert OBJECTS.size(folder) is None
    assert OBJECTS.size(folder / "x") == 1
    assert sizes_of(bucket / "a b", ["ü%20/x", "ü%20/absent", "ü%20/deep/y"]) == {
        "ü%20/x": 1,
        "ü%20/deep/y": 6,
        "ü%20/deep/z": 6,
    }
    (folder / "x").unlink()
    with pytest.raises(FileNotFoundError):
        (folder / "x").read_bytes()
    OBJECTS.remove(folder)
    assert not folder.exists()


def test_ranges_read_what_a_file_holds(bucket, tmp_path):
    rng = np.random.default_rng(0)
    data, local, path = rng.bytes(700_001), tmp_path / "x", bucket / "x"
    local.write_bytes(data)
    path.write_bytes(data)
    for buffered in (True, False):  # without a buffer, fewer bytes may come than are asked for
        with local.open("rb") as a, path.open() as whole:
            b = whole if buffered else whole.raw
            for _ in range(60):
                if rng.random() < 0.5:
                    position = int(rng.integers(len(data) + 10))
                    assert a.seek(position) == b.seek(position)
                n = int(rng.choice([0, 1, 10, 5_000, 200_000]))
                got, at = b.read(n), a.tell()
                if not buffered:
                    at = b.tell() - len(got)
                assert got == data[at : at + (n if buffered else len(got))]
                assert bool(got) == bool(n and at < len(data))
                a.seek(b.tell())
            b.seek(-5, os.SEEK_END)
            assert b.read(100) == data[-5:]
    (bucket / "empty").write_bytes(b"")
    with (bucket / "empty").open("rb") as file:
        assert file.read() == b""


def test_an_object_that_is_replaced_is_not_read_as_a_mixture(bucket):
    path = bucket / "x"
    path.write_bytes(bytes(300_000))
    with path.open("rb") as file:
        file.read(10)
        path.write_bytes(b"\1" * 300_000)
        with pytest.raises(OSError, match="replaced while it was in use"):
            file.read()


def test_one_of_many_creates_an_object(bucket):
    won = []

    def create(number: int) -> None:
        if OBJECTS.create(bucket / "x", str(number).encode()):
            won.append(number)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert (bucket / "x").read_bytes() == str(won[0]).encode()


def test_a_version_is_replaced_once(bucket):
    path = bucket / "x"
    held = OBJECTS.create(path, b"1")
    tag = path.head()["e_tag"]
    held.touch()
    assert path.head()["e_tag"] == tag  # of the same content
    path.write_bytes(b"2")
    held.touch()
    assert path.read_bytes() == b"2"
    assert OBJECTS.create(path, b"1") is None


def test_patterns_name_objects(bucket):
    for key in ("r/A_1.smi", "r/A_0.smi", "r/B.smi", "r/sub/A_2.smi", "r/[x].smi"):
        (bucket / key).write_bytes(b"C\n")

    def names(pattern: str) -> list[str]:
        return [str(path.relative_to(bucket)) for path in expand(f"{bucket}/{pattern}")]

    assert names("r/A_*.smi") == ["r/A_0.smi", "r/A_1.smi"]
    assert names("r/**/A_*.smi") == ["r/A_0.smi", "r/A_1.smi", "r/sub/A_2.smi"]
    assert names("*/B.smi") == ["r/B.smi"]
    assert names("r/[x].smi") == ["r/[x].smi"]
    assert names("r") == ["r/A_0.smi", "r/A_1.smi", "r/B.smi", "r/[x].smi", "r/sub/A_2.smi"]
    wrong = {"r/C*": "no object matches", "q": "does not exist"}
    for pattern, words in wrong.items():
        with pytest.raises(InputError, match=words):
            expand(f"{bucket}/{pattern}")


def test_what_fails_is_said_in_a_sentence(bucket, monkeypatch):
    with pytest.raises(InputError, match="there is no bucket absent"):
        expand("s3://absent/x.smi")
    monkeypatch.setattr(module, "_RETRIES", {"max_retries": 0})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(InputError, match=r"no answer from http://127.0.0.1:1; check the endpoint"):
        expand(f"{bucket}/x.smi")


def test_no_credentials_are_said_to_be_missing(bucket, monkeypatch):
    monkeypatch.setattr(module, "_RETRIES", {"max_retries": 0})
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(OSError, match="no credentials; set AWS_ACCESS_KEY_ID") as caught:
        (bucket / "x").read_bytes()
    assert caught.value.errno == errno.EACCES  # which is not tried again


def test_a_missing_obstore_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(StoreError, match=r"need obstore: install daskrf\[s3\]"):
        as_path("s3://bucket/key")


def test_data_in_memory_go_beside_the_output(bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # logs of outputs on an object storage go there
    data = {"smiles": ["CCO", "c1ccccc1", "CC"], "id": ["a", "b", "c"]}
    for _ in range(2):  # the second time the store is complete
        report = daskrf.fingerprint(data, f"{bucket}/memory.fingerprints")
        assert (report.kept, report.partitions) == (3, 1)
    store = FingerprintStore.open(as_path(f"{bucket}/memory.fingerprints"))
    assert store.read_rows(0, ["id"])["id"].to_pylist() == ["a", "b", "c"]
    place = as_path(str(bucket))
    assert not [name for name in module.backend(place).names(place) if "given" in name]
