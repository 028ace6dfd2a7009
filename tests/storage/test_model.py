"""Models and checkpoints come back bit for bit, or not at all."""

from __future__ import annotations

import json
import math
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskrf.errors import StoreError
from daskrf.storage import model
from daskrf.storage.inspection import status, verify
from daskrf.storage.integrity import sealed, unsealed
from daskrf.storage.kinds import kind_of
from daskrf.storage.model import find_checkpoint, load_model, read_checkpoint, save_model, write_checkpoint
from daskrf.storage.stores import zarrays
from daskrf.storage.stores.store import Store
from tests.storage.strategies import full_store

KINDS = ["?", "<i1", "<i8", ">i4", "<u8", "<f4", "<f8", "<f2", "<c16", "<U5", "S3"]
ARRAYS = st.sampled_from(KINDS).flatmap(
    lambda kind: hnp.arrays(np.dtype(kind), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7))
)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal type, shape and bytes, NaN and -0.0 included."""
    little = a.dtype.newbyteorder("<")
    return (
        a.dtype == b.dtype and a.shape == b.shape and a.astype(little).tobytes() == b.astype(little).tobytes()
    )


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    st.dictionaries(st.text("abc_", min_size=1, max_size=4), ARRAYS, max_size=3), st.sampled_from([0, 1024])
)
def test_arrays_round_trip(arrays: dict[str, np.ndarray], small: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "SMALL_BYTES", small)
        path = Path(folder)
        save_model(path, arrays, {})
        write_checkpoint(path / "part", arrays, {}, "h")
        for found in (load_model(path), read_checkpoint(path / "part", "h")):
            assert found is not None
            assert list(found.arrays) == list(arrays)
            assert all(same_bits(found.arrays[name], arrays[name]) for name in arrays)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    dtype=st.sampled_from(["<i8", "<i2", "<f8", "<f4", "?"]),
    shape=hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=9),
    data=st.data(),
    block_bytes=st.sampled_from([16, 40, 200]),
)
def test_arrays_of_several_chunks_round_trip(
    dtype: str, shape: tuple[int, ...], data: st.DataObject, block_bytes: int
) -> None:
    full = data.draw(hnp.arrays(np.dtype(dtype), shape))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(zarrays, "BLOCK_BYTES", block_bytes)
        patch.setattr(model, "SMALL_BYTES", 0)
        save_model(Path(folder), {"gram": full, "other": np.asfortranarray(full)}, {})
        found = load_model(Path(folder)).arrays
        (group,) = Path(folder).glob("arrays-*")
        plain = zarr.open_group(group, mode="r")["gram"]
        assert same_bits(plain[...], full)
        assert plain.dtype.itemsize * math.prod(plain.chunks) <= max(block_bytes, full.itemsize)
    assert same_bits(found["gram"], full)
    assert same_bits(found["other"], full)


def test_an_integer_gram_takes_as_many_bits_as_its_numbers_have(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for low, bits in ((-100, 8), (-30_000, 16), (-(2**20), 22), (-(2**40), 43)):
        gram = np.triu(generator.integers(low, -low, (400, 400)))
        save_model(tmp_path, {"gram": gram}, {})
        (chunk,) = tmp_path.glob("arrays-*/gram/c.*")
        assert chunk.stat().st_size < 1.15 * 400 * 401 / 2 * bits / 8 + 4000
        assert same_bits(load_model(tmp_path).arrays["gram"], gram)


def test_metadata_keep_their_values(tmp_path: Path) -> None:
    metadata = {
        "noise_variance": 0.1 + 0.2,
        "bad": math.inf,
        "big": 2**70,
        "names": ["a", "ü"],
        "n": np.int64(7),
    }
    save_model(tmp_path / "m", {}, metadata)
    found = load_model(tmp_path / "m")
    assert found.metadata == {**metadata, "n": 7}
    assert {"numpy", "host", "created"} <= set(found.provenance)
    save_model(tmp_path / "m", {}, {"nan": math.nan})
    assert math.isnan(load_model(tmp_path / "m").metadata["nan"])


def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    save_model(tmp_path, {"a": np.arange(3)}, {})
    with pytest.raises(StoreError, match=r"'yy' .* type object"):
        save_model(tmp_path, {"yy": np.array([2**80], dtype=object)}, {})
    with pytest.raises(StoreError, match="not plain JSON"):
        save_model(tmp_path, {}, {"f": print})
    assert load_model(tmp_path).arrays["a"].tolist() == [0, 1, 2]
    assert sorted(item.name.partition("-")[0] for item in tmp_path.iterdir()) == ["_arrays.json", "arrays"]


def test_only_wanted_arrays_are_read(tmp_path: Path) -> None:
    save_model(tmp_path, {"gram": np.eye(3), "weights": np.ones(3), "n": np.array(5)}, {})
    assert list(load_model(tmp_path, names=["weights"]).arrays) == ["weights"]
    assert list(load_model(tmp_path, names=[]).arrays) == []


def files_of(model: Path) -> list[Path]:
    return sorted(path for path in model.rglob("*") if path.is_file())


def test_every_damaged_byte_is_seen_or_harmless(tmp_path: Path) -> None:
    arrays = {"gram": np.triu(np.arange(400).reshape(20, 20)), "weights": np.linspace(0, 1, 20)}
    save_model(tmp_path, arrays, {"map": {"seed": 1}})
    for path in files_of(tmp_path):
        data, refused = path.read_bytes(), 0
        for position in range(len(data)):
            path.write_bytes(data[:position] + bytes([data[position] ^ 0x04]) + data[position + 1 :])
            try:
                found = load_model(tmp_path)
            except StoreError:
                refused += 1
            else:
                assert found.metadata == {"map": {"seed": 1}}
                assert all(same_bits(found.arrays[name], arrays[name]) for name in arrays)
        path.write_bytes(data)
        assert refused == (0 if path.name == "zarr.json" else len(data)), path


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_truncated_models(tmp_path: Path, keep: float) -> None:
    save_model(tmp_path, {"a": np.random.default_rng(0).standard_normal(1000)}, {})
    for path in files_of(tmp_path):
        data = path.read_bytes()
        path.write_bytes(data[: int(keep if keep >= 1 else keep * len(data))])
        if path.name != "zarr.json":  # our readers know what is in it
            with pytest.raises(StoreError, match="damaged"):
                load_model(tmp_path)
        assert verify(tmp_path).damaged[0]
        path.unlink()
        assert path.name == "_arrays.json" or verify(tmp_path).damaged[0]
        path.write_bytes(data)
    assert verify(tmp_path).sound


def test_a_model_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(tmp_path, {"a": np.arange(3)}, {"fit": 1})

    def crash(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for moment in ("publish", "atomic_write"):
        with monkeypatch.context() as patch:
            patch.setattr(f"daskrf.storage.model.{moment}", crash)
            with pytest.raises(KeyboardInterrupt):
                save_model(tmp_path, {"a": np.arange(4)}, {"fit": 2})
        assert load_model(tmp_path).arrays["a"].tolist() == [0, 1, 2]
    save_model(tmp_path, {"a": np.arange(5)}, {"fit": 3})
    assert load_model(tmp_path).arrays["a"].tolist() == [0, 1, 2, 3, 4]
    assert len(list(tmp_path.iterdir())) == 2, "what the others left is gone"


def test_models_and_stores_are_not_mixed(tmp_path: Path) -> None:
    store = full_store(tmp_path / "s", 1)
    save_model(tmp_path / "m", {}, {})
    with pytest.raises(StoreError, match=r"is a fingerprint store, but a model is needed here.*daskrf fit"):
        load_model(store.path)
    with pytest.raises(StoreError, match="is a fingerprint store, but a model"):
        save_model(store.path, {}, {})
    with pytest.raises(StoreError, match="is a model"):
        Store.open(tmp_path / "m")
    with pytest.raises(StoreError, match="holds no model"):
        load_model(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert [kind_of(tmp_path / name, missing_ok=True) for name in ("s", "m", "empty", "x")] == [
        "fingerprints",
        "model",
        None,
        None,
    ]
    with pytest.raises(StoreError, match="does not exist, or is empty"):
        kind_of(tmp_path / "empty")


def test_other_format_versions_are_refused_by_name(tmp_path: Path) -> None:
    path = save_model(tmp_path / "m", {}, {})
    record = {**unsealed(path.read_bytes()), "format_version": 7}
    old = tmp_path / "old"
    old.mkdir()
    header = {"format": "daskrf", "format_version": 1, "kind": "model", "provenance": {"daskrf": "0.1.0"}}
    with zipfile.ZipFile(old / "model.zip", "w") as archive:
        archive.writestr("metadata.json", json.dumps(header))
    for content in (sealed(json.dumps(record).encode()), json.dumps(record).encode()):
        path.write_bytes(content)
        for refuse in (lambda: load_model(tmp_path / "m"), lambda: status(tmp_path / "m")):
            with pytest.raises(StoreError, match="format version 7"):
                refuse()
    for look in (load_model, status, verify, kind_of):
        with pytest.raises(StoreError, match=r"old has format version 1 \(made by daskrf 0\.1\.0\)"):
            look(old)


def test_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "level-0"
    assert read_checkpoint(path, "h") is None
    arrays = {"gram": np.triu(np.arange(100).reshape(10, 10)), "n": np.array(12)}
    write_checkpoint(path, arrays, {"groups": [1, 2]}, "h")
    found = read_checkpoint(path, "h")
    assert found is not None
    assert found.metadata == {"groups": [1, 2]}
    assert all(same_bits(found.arrays[name], arrays[name]) for name in arrays)
    assert read_checkpoint(path, "other") is None
    contents = {file: file.read_bytes() for file in files_of(path)}
    write_checkpoint(path, arrays, {"groups": [1, 2]}, "h")
    assert {file: file.read_bytes() for file in files_of(path)} == contents, "equal content gives equal bytes"
    for file, data in contents.items():
        for damaged in (b"", data[:-9], data[:9] + b"x" + data[10:], b"\0" * len(data)):
            file.write_bytes(damaged)
            assert file.name == "zarr.json" or read_checkpoint(path, "h") is None
        write_checkpoint(path, arrays, {"groups": [1, 2]}, "h")
        assert read_checkpoint(path, "h") is not None, "it is mended"


def test_the_first_of_several_checkpoints_stays(tmp_path: Path) -> None:
    path = tmp_path / "draw"
    for number, keep in ((0, True), (1, True), (2, False)):
        write_checkpoint(path, {"a": np.array(number)}, {}, "h", keep=keep)
        found = read_checkpoint(path, "h")
        assert found is not None
        assert found.arrays["a"] == (2 if number == 2 else 0)


def test_what_an_older_version_has_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "level-0"
    path.write_bytes(b"PK")
    assert read_checkpoint(path, "h") is None
    assert find_checkpoint(path, "h") is None
    write_checkpoint(path, {}, {"n": 1}, "h")
    assert find_checkpoint(path, "h") is not None


def test_a_checkpoint_is_found_by_its_record(tmp_path: Path) -> None:
    path = tmp_path / "level-0"
    assert find_checkpoint(path, "h") is None
    noise = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8)
    write_checkpoint(path, {"gram": noise, "n": np.array(12)}, {}, "h")
    assert find_checkpoint(path, "other") is None
    for file in files_of(path):
        data = file.read_bytes()
        for keep in range(0, len(data), max(1, len(data) // 50)):
            file.write_bytes(data[:keep])
            assert find_checkpoint(path, "h") is None, keep
        file.unlink()
        assert find_checkpoint(path, "h") is None
        file.write_bytes(data)
        assert find_checkpoint(path, "h") is not None
    (chunk,) = path.glob("arrays-*/gram/c.*")
    data = chunk.read_bytes()
    chunk.write_bytes(data[:3000] + bytes([data[3000] ^ 1]) + data[3001:])
    assert find_checkpoint(path, "h") is not None
    assert read_checkpoint(path, "h") is None, "digests are the business of the reader"


def test_nothing_else_is_taken_for_a_checkpoint(tmp_path: Path) -> None:
    save_model(tmp_path / "m", {}, {"spec_hash": "h"})
    assert find_checkpoint(tmp_path / "m", "h") is None
    assert find_checkpoint(tmp_path, "h") is None
    path = tmp_path / "level-0"
    write_checkpoint(path, {"a": np.arange(300), "b": np.arange(400)}, {}, "h")
    record = unsealed((path / "_arrays.json").read_bytes())
    record["objects"] = [item for item in record["objects"] if "/b/" not in item[0]]
    (path / "_arrays.json").write_bytes(sealed(json.dumps(record).encode()))
    assert read_checkpoint(path, "h") is None
