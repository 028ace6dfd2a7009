"""Models and checkpoints come back bit for bit, or not at all."""

from __future__ import annotations

import json
import math
import struct
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskrf.errors import StoreError
from daskrf.storage import container
from daskrf.storage.inspection import kind_of, status, verify
from daskrf.storage.model import has_checkpoint, load_model, read_checkpoint, save_model, write_checkpoint
from daskrf.storage.store import Store
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
@given(st.dictionaries(st.text("abc_", min_size=1, max_size=4), ARRAYS, max_size=3))
def test_arrays_round_trip(arrays: dict[str, np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save_model(folder, arrays, {})
        found = load_model(folder).arrays
    assert list(found) == list(arrays)
    assert all(same_bits(found[name], arrays[name]) for name in arrays)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    dtype=st.sampled_from(["<i8", "<i2", "<f8", "<f4", "?"]),
    n=st.integers(2, 9),
    form=st.sampled_from(["upper", "symmetric"]),
    data=st.data(),
    piece_bytes=st.sampled_from([16, 40, 1 << 20]),
)
def test_triangles_round_trip(dtype: str, n: int, form: str, data: st.DataObject, piece_bytes: int) -> None:
    full = data.draw(hnp.arrays(np.dtype(dtype), (n, n)))
    matrix = np.triu(full)
    if form == "symmetric":
        below = np.tril_indices(n, -1)
        matrix[below] = matrix.T[below]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(container, "PIECE_BYTES", piece_bytes)
        path = save_model(folder, {"gram": matrix, "other": np.asfortranarray(full)}, {})
        entry = container.read_metadata(path)["arrays"]["gram"]
        found = load_model(folder).arrays
    assert entry["form"] != "full"
    assert same_bits(found["gram"], matrix)
    assert same_bits(found["other"], full)


def test_an_integer_gram_takes_the_smallest_type_of_its_triangle(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for low, stored in ((-100, "|i1"), (-30_000, "<i2"), (-(2**20), "<i4"), (-(2**40), "<i8")):
        gram = np.triu(generator.integers(low, -low, (200, 200)))
        path = save_model(tmp_path, {"gram": gram}, {})
        assert container.read_metadata(path)["arrays"]["gram"]["stored"] == stored
        assert path.stat().st_size < 1.1 * 200 * 201 / 2 * np.dtype(stored).itemsize + 2000
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
    assert [item.name for item in tmp_path.iterdir()] == ["model.zip"]


def test_only_wanted_arrays_are_read(tmp_path: Path) -> None:
    save_model(tmp_path, {"gram": np.eye(3), "weights": np.ones(3), "n": np.array(5)}, {})
    assert list(load_model(tmp_path, names=["weights"]).arrays) == ["weights"]
    assert list(load_model(tmp_path, except_names=["gram"]).arrays) == ["weights", "n"]


def test_every_damaged_byte_is_seen_or_harmless(tmp_path: Path) -> None:
    arrays = {"gram": np.triu(np.arange(400).reshape(20, 20)), "weights": np.linspace(0, 1, 20)}
    path = save_model(tmp_path, arrays, {"map": {"seed": 1}})
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
    assert refused > 0.8 * len(data)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_truncated_models(tmp_path: Path, keep: float) -> None:
    path = save_model(tmp_path, {"a": np.arange(1000.0)}, {})
    data = path.read_bytes()
    path.write_bytes(data[: int(keep if keep >= 1 else keep * len(data))])
    with pytest.raises(StoreError, match="damaged"):
        load_model(tmp_path)
    assert "damaged" in verify(tmp_path).damaged[0][0]


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
    with pytest.raises(StoreError, match="not a daskrf store"):
        kind_of(tmp_path / "empty")


def test_other_format_versions_are_refused_by_name(tmp_path: Path) -> None:
    path = save_model(tmp_path, {}, {})
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("metadata.json"))
    header["format_version"] = 7
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps(header))
    for refuse in (lambda: load_model(tmp_path), lambda: status(tmp_path)):
        with pytest.raises(StoreError, match="format version 7"):
            refuse()


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
    data = path.read_bytes()
    write_checkpoint(path, arrays, {"groups": [1, 2]}, "h")
    assert path.read_bytes() == data, "equal content gives equal bytes"
    for damaged in (b"", data[:-9], data[:99] + b"x" + data[100:], b"\0" * len(data)):
        path.write_bytes(damaged)
        assert read_checkpoint(path, "h") is None


def test_a_checkpoint_is_found_by_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "level-0"
    assert not has_checkpoint(path, "h")
    noise = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8)
    write_checkpoint(path, {"gram": noise, "n": np.array(12)}, {}, "h")
    data = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(container, "_read_array", None)
        assert has_checkpoint(path, "h")
        assert not has_checkpoint(path, "other")
    for keep in range(0, len(data), 7):
        path.write_bytes(data[:keep])
        assert not has_checkpoint(path, "h"), keep
    # A piece out of the middle: the directory at the end is whole, and does not fit.
    path.write_bytes(data[:2000] + data[2100:])
    assert not has_checkpoint(path, "h")
    path.write_bytes(data[:3000] + b"xy" + data[3002:])
    assert has_checkpoint(path, "h")
    assert read_checkpoint(path, "h") is None, "digests are the business of the reader"
    path.write_bytes(b"\0" * len(data))
    assert not has_checkpoint(path, "h")
    # The directory says that an array is longer than the room that it has.
    entry = data.index(b"gram.npy.zst", data.index(b"PK\1\2")) - 46
    (size,) = struct.unpack_from("<I", data, entry + 20)
    for change, there in ((0, True), (25, False), (1 << 20, False)):
        longer = bytearray(data)
        struct.pack_into("<I", longer, entry + 20, size + change)
        path.write_bytes(longer)
        assert has_checkpoint(path, "h") == there


def test_no_other_file_is_taken_for_a_checkpoint(tmp_path: Path) -> None:
    model = save_model(tmp_path, {}, {"spec_hash": "h"})
    assert not has_checkpoint(model, "h")
    path = tmp_path / "level-0"
    write_checkpoint(path, {"a": np.arange(3), "b": np.arange(4)}, {}, "h")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    del members["b.npy.zst"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert not has_checkpoint(path, "h")
    assert not has_checkpoint(tmp_path, "h")
