"""Models and checkpoints: named Zarr arrays, and one sealed record of all their files.

Both have this layout::

    _arrays.json                  kind, metadata, small arrays, and the size and digests of every file
    arrays-0123456789abcdef/      a Zarr group, named after a digest of its content

The record is written last and replaced atomically, and the group that it names never changes. So a reader, or
a crash, sees either the old arrays or the new ones. Without a record there is no model.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath, PurePosixPath
from typing import NotRequired, TypeAlias, TypedDict, cast

import numpy as np

from daskrf.arrays import NamedArrays
from daskrf.documents import JsonObject
from daskrf.errors import StoreError
from daskrf.files.backend import (
    as_path,
    atomic_write,
    backend,
    is_file,
    publish,
    remove_quietly,
    remove_stale,
    staging,
    sync,
)
from daskrf.files.disk import file_errors
from daskrf.storage.integrity import FileList, as_damage, listed_objects, release, sealed, staged_objects
from daskrf.storage.keptrounds import kept_groups
from daskrf.storage.modelmetadata import ModelMetadata
from daskrf.storage.stores.store import (
    ARRAYS_FILE,
    FORMAT,
    FORMAT_VERSION,
    PLAN_FILE,
    check_kind,
    provenance,
    read_headed,
    read_plan,
    refuse_old,
)
from daskrf.storage.stores.zarrays import BLOCK_BYTES, Layout, blocks, create_group, read_array, write_array

_GROUP = re.compile(r"arrays-[0-9a-f]{16}")
_TYPES = "biufcUS"  # kinds of NumPy's types
SMALL_BYTES = 1024  # arrays up to this size are stored in the record: single numbers need no files


class ArrayEntry(TypedDict):
    """Type and shape of an array, and its bytes in hexadecimal, or how files hold it."""

    dtype: str
    shape: list[int]
    value: NotRequired[str]
    stored: NotRequired[str]
    chunks: NotRequired[Sequence[int]]


@dataclass(frozen=True)
class Saved(FileList):
    """A model or a checkpoint.

    Attributes
    ----------
    objects : tuple of StoredObject
        Its files, except the record.
    group : str
        Name of the Zarr group.
    entries : dict of str to dict
        Type and shape of every array.
    metadata : dict
        As passed by the caller.
    provenance : dict
        Versions, host and time of the writer.
    arrays : dict of str to ndarray
        The arrays that were read, in their original types and shapes.
    """

    group: str
    entries: dict[str, ArrayEntry]
    metadata: JsonObject
    provenance: JsonObject
    arrays: dict[str, np.ndarray]

    @property
    def of_model(self) -> ModelMetadata:
        """The metadata, which are a model's."""
        return cast(ModelMetadata, self.metadata)


class OrderedBytes:
    """Many bytes that are read in order while a model is saved, in the place of an array of them.

    Parameters
    ----------
    n : int
        How many there are.
    pieces : function
        Returns an iterator of uint8 arrays, which together are the bytes.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, n: int, pieces: Callable[[], Iterator[np.ndarray]]) -> None:
        self.shape, self.nbytes = (n,), n
        self._make, self._pieces, self._rest, self._at = pieces, pieces(), np.zeros(0, np.uint8), 0

    def again(self) -> OrderedBytes:
        """Return the same bytes, to be read from the first one."""
        return OrderedBytes(self.nbytes, self._make)

    def __getitem__(self, region: tuple[slice]) -> np.ndarray:
        """Return the next bytes: regions must follow each other."""
        start, stop, _ = region[0].indices(self.shape[0])
        if start != self._at:
            raise IndexError(f"the bytes from {self._at} on are read next, not those from {start} on")
        pieces, n = [self._rest], len(self._rest)
        while n < stop - start:
            piece = next(self._pieces)
            pieces.append(piece)
            n += len(piece)
        every = np.concatenate(pieces)
        self._at, self._rest = stop, every[stop - start :].copy()
        return every[: stop - start]


def is_group(name: str) -> bool:
    """Return whether a file in the folder of a model has the name of a group of arrays."""
    return _GROUP.fullmatch(name) is not None


def save_model(path: PurePath, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, object]) -> PurePath:
    """Write a model, atomically replacing an existing one.

    Parameters
    ----------
    path : path
        Directory of the model; created if needed.
    arrays : mapping of str to ndarray
        Weights, statistics and so on: any shape; numbers, booleans or text.
    metadata : mapping
        JSON values: state of the map, hyperparameters, target names, spec hashes. NumPy scalars and arrays
        become numbers and lists.

    Returns
    -------
    Path
        The record.

    Raises
    ------
    StoreError
        `path` holds a store of another kind, a value cannot be stored, or writing fails.
    """
    with file_errors("create", path):
        if is_file(path / PLAN_FILE):
            check_kind(read_plan(path)["kind"], "model", path)
        remove_stale(path, "arrays")
    group = _write(path, "model", arrays, metadata, provenance())
    groups = kept_groups(path) | {group}
    for name in backend(path).names(path):
        if is_group(name) and name not in groups:
            remove_quietly(path / name)
    return path / ARRAYS_FILE


def load_model(path: PurePath, names: Collection[str] | None = None) -> Saved:
    """Read a model, checking the digest of every file read.

    Parameters
    ----------
    path : path
        Directory of the model.
    names : collection of str, optional
        Only these arrays; by default all of them.

    Returns
    -------
    Saved

    Raises
    ------
    StoreError
        There is no model, or another kind of store, or it is damaged or of an unknown format version.
    """
    with file_errors("read", path):
        if not is_file(path / ARRAYS_FILE):
            if is_file(path / PLAN_FILE):
                check_kind(read_plan(path)["kind"], "model", path)
            refuse_old(path)
            raise StoreError(f"{path} holds no model: check the path, or run `daskrf fit` first")
    return read_arrays(path, "model", names)


def check_numbers(state: JsonObject) -> None:
    """Reject the state of one or several processes if a mean or a variance is not a finite number.

    Raises
    ------
    ValueError
    """
    if not isinstance(state, Mapping):
        raise ValueError("the state of its process is not a mapping")
    for name in ("mean", "signal_variance", "noise_variance"):
        if name in state and not np.isfinite(np.asarray(state[name], np.float64)).all():
            raise ValueError(f"its {name} is not a number")
    for component in state.get("parts", ()):
        check_numbers(component)


def more_arrays(path: PurePath, saved: Saved, names: Collection[str]) -> dict[str, np.ndarray]:
    """Read further arrays of a model, as named by its record, which was read before.

    So all that a command reads belongs to the same model, even if another model has replaced it meanwhile.

    Raises
    ------
    StoreError
        They are damaged, or the model was replaced since.
    """
    try:
        with file_errors("read", path):
            return {name: _read_array(path, saved, name) for name in names}
    except StoreError:
        if load_model(path, ()).group == saved.group:
            raise
    raise StoreError(f"The model {path} was changed during the run; run the same command again.")


def write_checkpoint(
    path: PurePath,
    arrays: Mapping[str, np.ndarray],
    meta: Mapping[str, object],
    spec_hash: str,
    keep: bool = False,
) -> None:
    """Write a partial result durably; equal content gives equal bytes.

    Parameters
    ----------
    path : path
        Directory; created if needed, but not its parent: a task whose job has ended must not create it again.
    arrays : mapping of str to ndarray
        The partial result.
    meta : mapping
        JSON values.
    spec_hash : str
        Spec hash of the work that it belongs to.
    keep : bool
        Keep a checkpoint that already exists, or that another process writes meanwhile.

    Raises
    ------
    StoreError
        Writing fails.
    """
    if is_file(path):  # a checkpoint of daskrf 0.1.0
        remove_quietly(path)
    _write(path, "checkpoint", arrays, {"spec_hash": spec_hash, "meta": dict(meta)}, {}, keep)


def find_checkpoint(path: PurePath, spec_hash: str) -> Saved | None:
    """Return a partial result, without its arrays, if all its files exist in full size.

    This is cheap whatever its size. Digests are not checked; `read_checkpoint` does that.

    Parameters
    ----------
    path : path
        Directory.
    spec_hash : str
        Spec hash of the work that needs it.

    Returns
    -------
    Saved or None
        None if it is absent, truncated, or belongs to other work.
    """
    try:
        checkpoint = read_arrays(path, "checkpoint", ())
        with file_errors("read", path):
            if checkpoint.missing(path, backend(path).sizes(path)):
                return None
    except StoreError:
        return None
    return _of_work(checkpoint, spec_hash)


def read_checkpoint(path: PurePath, spec_hash: str) -> Saved | None:
    """Read a partial result; its ``metadata`` are the `meta` passed to `write_checkpoint`.

    Parameters
    ----------
    path : path
        Directory.
    spec_hash : str
        Spec hash of the work that needs it.

    Returns
    -------
    Saved or None
        None if it is absent, damaged, or belongs to other work; it is then computed again.
    """
    try:
        checkpoint = read_arrays(path, "checkpoint")
    except StoreError:
        return None
    return _of_work(checkpoint, spec_hash)


def needed_checkpoint(path: str | PurePath, spec_hash: str) -> Saved:
    """Read a partial result that the same command has written before; see `read_checkpoint`.

    Parameters
    ----------
    path : str or path
        Directory, also as text, as tasks carry it.
    spec_hash : str
        Spec hash of the work that needs it.

    Raises
    ------
    StoreError
        It is absent, damaged, or belongs to other work.
    """
    checkpoint = read_checkpoint(as_path(path), spec_hash)
    if checkpoint is None:
        raise StoreError(
            f"{path} is missing or damaged, or this worker cannot see it; run the same command again, which "
            "makes it anew, with outputs in a folder that all workers share"
        )
    return checkpoint


Contents: TypeAlias = tuple[NamedArrays, JsonObject]
"""The arrays and the JSON values of a checkpoint."""


def made_once(path: PurePath, spec_hash: str, make: Callable[[], Contents]) -> Saved:
    """Read a partial result, or make and write it; if several processes do so, the first result counts.

    Parameters
    ----------
    path : path
        Directory; created if needed, as is its parent.
    spec_hash : str
        Spec hash of the work that it belongs to.
    make : callable
        Returns the arrays and the JSON values to write; called only if there is no undamaged result.

    Returns
    -------
    Saved
        As `read_checkpoint` returns it.

    Raises
    ------
    StoreError
        Writing fails, or what was written cannot be read.
    """
    if (checkpoint := read_checkpoint(path, spec_hash)) is not None:
        return checkpoint
    arrays, meta = make()
    backend(path.parent).make(path.parent)
    write_checkpoint(path, arrays, meta, spec_hash, keep=True)
    if (checkpoint := read_checkpoint(path, spec_hash)) is not None:
        return checkpoint
    write_checkpoint(path, arrays, meta, spec_hash)  # in place of a damaged one
    return needed_checkpoint(path, spec_hash)


def _of_work(checkpoint: Saved, spec_hash: str) -> Saved | None:
    if checkpoint.metadata.get("spec_hash") != spec_hash:
        return None
    return replace(checkpoint, metadata=checkpoint.metadata.get("meta", {}))


def _write(
    path: PurePath,
    kind: str,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, object],
    origin: dict[str, object],
    keep: bool = False,
) -> str:
    """Write the arrays and then the record, and return the name of the group."""
    for name, array in arrays.items():
        if array.dtype.kind not in _TYPES:
            raise StoreError(f"array {name!r} of {path} has type {array.dtype}, which cannot be stored")
    entries = {name: _entry(array, kind) for name, array in arrays.items()}
    record: dict[str, object] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "entries": entries,
        "metadata": dict(metadata),
    }
    with file_errors("write", path):
        text = _text(record, path)
        if backend(path).make(path, parents=kind == "model"):
            sync(path.parent)
        with staging(path, "arrays") as directory:
            place = directory / "arrays"
            filed = {name: entry for name, entry in entries.items() if "stored" in entry}
            groups = {PurePosixPath(), *(up for name in filed for up in PurePosixPath(name).parents)}
            for folder in sorted(groups):  # a group before those in it
                create_group(place / folder)
            for name, entry in filed.items():
                write_array(place, name, _plain(arrays[name]), _layout(entry))
                release(arrays[name])
            files = staged_objects(path, {path: directory / "arrays"})
            group = f"arrays-{hashlib.sha256(text + _text(files, path)).hexdigest()[:16]}"
            record |= {"group": group, "objects": [[f"{group}/{item[0]}", *item[1:]] for item in files]}
            publish(path, {path / group / item.path: directory / "arrays" / item.path for item in files})
        atomic_write(path / ARRAYS_FILE, sealed(_text({**record, "provenance": origin}, path)), keep)
    return group


def _text(value: object, path: PurePath) -> bytes:
    try:
        return json.dumps(value, default=_json_of).encode()
    except (TypeError, ValueError) as error:
        raise StoreError(f"the metadata of {path} are not plain JSON ({error})") from error


def _json_of(value: object) -> object:
    """Return the JSON form of NumPy values and of paths."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _entry(array: np.ndarray, kind: str) -> ArrayEntry:
    """Return an array's entry in the record: type and shape, and its bytes or the type stored in files."""
    entry: ArrayEntry = {"dtype": array.dtype.str, "shape": list(array.shape)}
    if array.nbytes <= SMALL_BYTES:
        return {**entry, "value": array.tobytes().hex()}
    plain = _plain(array)
    # A checkpoint uses the smallest sufficient type; arithmetic by readers of a model must not overflow.
    types = ["|i1", "<i2", "<i4"] if kind == "checkpoint" and plain.dtype.kind == "i" else []
    low, high = (int(plain.min()), int(plain.max())) if types else (0, 0)
    narrow = (name for name in types if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
    stored = next(narrow, plain.dtype.newbyteorder("<").str)
    return {**entry, "stored": stored, "chunks": blocks(plain.shape, np.dtype(stored).itemsize)}


def _plain(array: np.ndarray) -> np.ndarray:
    """Return text as bytes, and numbers unchanged."""
    if array.dtype.kind not in "US":
        return array
    return np.asarray(array, order="C")[..., None].view(np.uint8)


def _layout(entry: ArrayEntry) -> Layout:
    """Return the file layout of an array in a record."""
    dtype, stored, shape = np.dtype(entry["dtype"]), np.dtype(entry["stored"]), tuple(entry["shape"])
    shape = (*shape, dtype.itemsize) if dtype.kind in "US" else shape
    return Layout(shape, tuple(entry["chunks"]), stored, "bits" if stored.kind in "iu" else "fast")


def read_arrays(path: PurePath, kind: str, names: Collection[str] | None = None) -> Saved:
    """Read the record of a model or checkpoint, and all of its arrays or only those in `names`.

    Raises
    ------
    StoreError
        It is absent, damaged, of another kind or of an unknown format version.
    """
    file = path / ARRAYS_FILE
    with file_errors("read", file), as_damage(file):
        record = read_headed(path, ARRAYS_FILE)
        check_kind(record["kind"], kind, path)
        group, entries, metadata = (record[key] for key in ("group", "entries", "metadata"))
        if not (isinstance(entries, dict) and isinstance(metadata, dict)):
            raise ValueError("its entries or its metadata are of the wrong type")
        objects = listed_objects(record["objects"])
        if not (_GROUP.fullmatch(group) and all(item.path.startswith(f"{group}/") for item in objects)):
            raise ValueError("it names files outside its group")
        for name, entry in entries.items():
            _check(name, entry, len(objects))
        saved = Saved(objects, group, entries, metadata, record["provenance"], {})
        wanted = [name for name in saved.entries if names is None or name in names]
        return replace(saved, arrays={name: _read_array(path, saved, name) for name in wanted})


def _check(name: str, entry: ArrayEntry, n_files: int) -> None:
    """Reject an array of an unsupported type, or one larger than its stored bytes can be."""
    named = [entry["dtype"], entry["stored"]] if "stored" in entry else [entry["dtype"]]
    dtypes, shape = [np.dtype(each) for each in named], entry["shape"]
    if any(dtype.str not in entry.values() or dtype.kind not in _TYPES for dtype in dtypes):
        raise ValueError(f"array {name!r} has a type that daskrf does not store")
    if not (isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)):
        raise ValueError(f"array {name!r} has an impossible shape")
    # Checked before memory is allocated for it.
    size = math.prod(shape) * dtypes[0 if dtypes[0].kind in "US" else -1].itemsize
    if size > (n_files * BLOCK_BYTES if "stored" in entry else len(entry["value"]) // 2):
        raise ValueError(f"array {name!r} is larger than its stored bytes can be")


def _read_array(path: PurePath, saved: Saved, name: str) -> np.ndarray:
    """Read one array in its original type and shape."""
    entry = saved.entries[name]
    dtype = np.dtype(entry["dtype"])
    if "value" in entry:
        return np.frombuffer(bytearray.fromhex(entry["value"]), dtype).reshape(entry["shape"])
    text = dtype.kind in "US"
    stored = np.uint8 if text else dtype
    where = f"{saved.group}/{name}"
    with as_damage(path / where):
        values = read_array(path, where, saved, _layout(entry), stored)
    return values.view(dtype)[..., 0] if text else values
