"""Named arrays and their metadata in one file that is replaced atomically: models and checkpoints.

The file is a ZIP archive (stored, fixed dates: equal content gives equal bytes) of ``NAME.npy.zst``, a
Zstandard frame around NumPy's own format, and ``metadata.json``; ``unzip``, ``zstd -d`` and ``numpy.load``
open it. ZIP keeps a CRC-32 of every member, which is checked on reading.

A triangular or symmetric matrix is stored as its upper triangle, row after row, and integers in the
smallest type that holds them: an integer Gram matrix of M = 8192 takes 134 MB at most instead of 512.
"""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import IO, Any

import numpy as np
import zstandard

from daskrf.errors import StoreError
from daskrf.storage.backend import backend
from daskrf.storage.files import file_errors
from daskrf.storage.integrity import believed, parsed
from daskrf.storage.plans import (
    FORMAT,
    FORMAT_VERSION,
    check_format,
    check_kind,
    check_provenance,
    provenance,
)

__all__ = ["Container", "read_container", "read_metadata", "read_whole_metadata", "write_container"]

METADATA = "metadata.json"
SUFFIX = ".npy.zst"
LEVEL = 1
PIECE_BYTES = 8 << 20
HEAD_BYTES = 30  # of a ZIP member, before its name
EXPANSION = 1 << 15  # bytes that Zstandard makes of one at most: a block of 4 bytes stands for 128 KiB
STORED_KINDS = "biufcUS"


@dataclass(frozen=True)
class Container:
    """What one file holds.

    Attributes
    ----------
    metadata : dict
        As given to `write_container`.
    arrays : dict of str to ndarray
        With the types and shapes they had.
    provenance : dict
        Versions, host and time of the writer.
    """

    metadata: dict[str, Any]
    arrays: dict[str, np.ndarray]
    provenance: dict[str, Any] = field(default_factory=dict)


def write_container(
    path: PurePath,
    kind: str,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, Any],
    origin: bool = True,
    keep: bool = False,
) -> None:
    """Write a whole file, so that a reader or a crash sees either the old one or the new one.

    Parameters
    ----------
    path : Path
        File; its directory exists.
    kind : str
        Checked by `read_container`.
    arrays : mapping of str to ndarray
        Any shape; numbers, booleans or text.
    metadata : mapping
        JSON values; NumPy scalars and arrays become numbers and lists.
    origin : bool
        Record versions, host and time. Without them equal content gives equal bytes.
    keep : bool
        Leave a file alone that is there already, or comes there meanwhile.

    Raises
    ------
    StoreError
        An array of Python objects, metadata that is not JSON, or a disk that does not take it.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in STORED_KINDS:
            raise StoreError(f"array {name!r} of {path} has type {array.dtype}, which cannot be stored")
    header: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "arrays": {name: _describe(array) for name, array in arrays.items()},
        "metadata": dict(metadata),
        "provenance": provenance() if origin else {},
    }
    try:
        text = json.dumps(header, indent=1, default=_plain)
    except (TypeError, ValueError) as error:
        raise StoreError(f"the metadata of {path} are not plain JSON ({error})") from error
    with (
        file_errors("write", path),
        backend(path).writing(path, keep) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive,
    ):
        archive.writestr(_member(METADATA), text)
        for name, array in arrays.items():
            with archive.open(_member(name + SUFFIX), "w", force_zip64=True) as member:
                _write_member(member, array, header["arrays"][name])


def read_container(
    path: PurePath, kind: str, names: Collection[str] | None = None, except_names: Collection[str] = ()
) -> Container:
    """Read a file, checking the digest of every member that is read.

    Parameters
    ----------
    path : Path
        File.
    kind : str
        Refuse any other.
    names : collection of str, optional
        Only these arrays; by default all of them.
    except_names : collection of str
        Not these, which may be large.

    Returns
    -------
    Container

    Raises
    ------
    StoreError
        Absent, damaged, of another kind or of an unknown format version.
    """
    with _open(path) as archive:
        header = _read_header(archive, path, kind)
        wanted = [
            name for name in header["arrays"] if (names is None or name in names) and name not in except_names
        ]
        arrays = {name: _read_array(archive, name, header["arrays"][name]) for name in wanted}
    return Container(header["metadata"], arrays, header["provenance"])


def read_metadata(path: PurePath) -> dict[str, Any]:
    """Read the header alone: format, kind, metadata, provenance, and type and shape of each array.

    Raises
    ------
    StoreError
        As in `read_container`.
    """
    with _open(path) as archive:
        return _read_header(archive, path)


def read_whole_metadata(path: PurePath) -> dict[str, Any]:
    """Read the header as `read_metadata` does, and check that every array is there in full length.

    Only the directory of the file and the heads of its members are read, however large they are; the
    digests of the arrays are not checked.

    Raises
    ------
    StoreError
        As in `read_container`.
    """
    with _open(path) as archive:
        header = _read_header(archive, path)
        members = sorted(archive.infolist(), key=lambda member: member.header_offset)
        if [member.filename for member in members] != [METADATA, *(f"{n}{SUFFIX}" for n in header["arrays"])]:
            raise ValueError("its members are not those that its header names")
        ends = [member.header_offset for member in members[1:]] + [archive.start_dir]
        for member, end in zip(members, ends, strict=True):
            with archive.open(member) as file:  # which checks the head of the member
                file.readable()
            if member.header_offset + HEAD_BYTES + len(member.filename) + member.compress_size > end:
                raise ValueError(f"{member.filename} is cut short")
        return header


@contextmanager
def _open(path: PurePath) -> Iterator[zipfile.ZipFile]:
    """Open an archive; whatever its damage raises becomes one sentence."""
    with file_errors("read", path), believed(path):
        try:
            with zipfile.ZipFile(backend(path).readable(path)) as archive:
                if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                    # Which could make gigabytes of a few bytes, before anything tells what they are.
                    raise ValueError("its members are not stored as daskrf stores them")
                yield archive
        except (zipfile.BadZipFile, zstandard.ZstdError, struct.error) as error:
            raise ValueError(str(error)) from error


def _read_header(archive: zipfile.ZipFile, path: PurePath, kind: str | None = None) -> dict[str, Any]:
    """Read what the file says of itself; of another kind than `kind`, it is refused before it is believed."""
    header = parsed(archive.read(METADATA))
    check_format(header, path)
    check_kind(header["kind"], kind, path)
    for part, type_ in (("kind", str), ("arrays", dict), ("metadata", dict), ("provenance", dict)):
        if not isinstance(header[part], type_):
            raise ValueError(f"its {part} is of the wrong type")
    check_provenance(header["provenance"])
    for name, entry in header["arrays"].items():
        _check_entry(name, entry, archive.getinfo(name + SUFFIX).file_size)
    return header


def _check_entry(name: str, entry: dict[str, Any], stored_bytes: int) -> None:
    """Refuse an array of a type that is not stored, or larger than what is stored of it can be."""
    stored, made, shape = np.dtype(entry["stored"]), np.dtype(entry["dtype"]), entry["shape"]
    smaller = stored.kind == made.kind == "i" and stored.itemsize <= made.itemsize <= 8
    if made.kind not in STORED_KINDS or not (smaller or stored == made.newbyteorder("<")):
        raise ValueError(f"array {name!r} is of a type that is not stored")
    square = len(shape) == 2 and shape[0] == shape[1]
    if entry["form"] not in (("full", "upper", "symmetric") if square else ("full",)):
        raise ValueError(f"array {name!r} is of a form that is not stored")
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"array {name!r} has an impossible shape")
    if math.prod(_stored_shape(entry)) * stored.itemsize > EXPANSION * stored_bytes:
        raise ValueError(f"array {name!r} is larger than its {stored_bytes:,} bytes can hold")


def _member(name: str) -> zipfile.ZipInfo:
    """An entry without a date of its own."""
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _plain(value: Any) -> Any:
    """JSON form of what NumPy brings along."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _describe(array: np.ndarray) -> dict[str, Any]:
    """How an array is stored: its type and shape, and the form and type on disk."""
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "form": _form(array),
        "stored": _stored_type(array).str,
    }


def _form(array: np.ndarray) -> str:
    """``upper`` where all below the diagonal is zero, ``symmetric``, or ``full``; to the bit."""
    if array.ndim != 2 or array.shape[0] != array.shape[1] or len(array) < 2:
        return "full"
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        return "full"
    # Compared as integers, so that -0.0 and NaN survive too.
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    possible = {"upper", "symmetric"}
    for start, stop in _row_blocks(array.shape[1], array.shape[1] * array.dtype.itemsize):
        below = np.tril(bits[start:stop, :stop], k=start - 1)
        above = np.triu(bits[:stop, start:stop], k=1 - start).T
        possible -= {"upper"} if below.any() else set()
        possible -= {"symmetric"} if "symmetric" in possible and (below != above).any() else set()
        if not possible:
            return "full"
    return "upper" if "upper" in possible else "symmetric"


def _stored_type(array: np.ndarray) -> np.dtype:
    """The smallest signed type that holds a signed integer array; other types stay."""
    if array.dtype.kind != "i" or array.size == 0:
        return array.dtype.newbyteorder("<")
    low, high = int(array.min()), int(array.max())
    for candidate in ("<i1", "<i2", "<i4"):
        limits = np.iinfo(candidate)
        if limits.min <= low and high <= limits.max:
            return np.dtype(candidate)
    return np.dtype("<i8")


def _row_blocks(n_rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows of about `PIECE_BYTES` each."""
    step = max(1, PIECE_BYTES // max(1, row_bytes))
    for start in range(0, n_rows, step):
        yield start, min(start + step, n_rows)


def _pieces(array: np.ndarray, form: str, stored: np.dtype) -> Iterator[bytes | memoryview]:
    """The bytes of an array in its stored form, in bounded pieces."""
    if form == "full":
        flat = np.ascontiguousarray(array).reshape(-1)
        for start, stop in _row_blocks(flat.size, flat.dtype.itemsize):
            yield np.ascontiguousarray(flat[start:stop], dtype=stored).tobytes()
        return
    for start, stop in _row_blocks(len(array), len(array) * stored.itemsize):
        rows = array[start:stop].astype(stored)
        yield b"".join(rows[i - start, i:].tobytes() for i in range(start, stop))


def _stored_shape(entry: dict[str, Any]) -> tuple[int, ...]:
    """Shape on disk: the array's own, or the number of entries of its triangle."""
    shape = tuple(entry["shape"])
    return shape if entry["form"] == "full" else (shape[0] * (shape[0] + 1) // 2,)


def _write_member(member: IO[bytes], array: np.ndarray, entry: dict[str, Any]) -> None:
    """Write an array as a Zstandard frame around the NPY format."""
    stored = np.dtype(entry["stored"])
    with zstandard.ZstdCompressor(level=LEVEL).stream_writer(member, closefd=False) as frame:
        head = io.BytesIO()
        description = {"descr": stored.str, "fortran_order": False, "shape": _stored_shape(entry)}
        np.lib.format.write_array_header_1_0(head, description)
        frame.write(head.getvalue())
        for piece in _pieces(array, entry["form"], stored):
            frame.write(piece)


def _read_array(archive: zipfile.ZipFile, name: str, entry: dict[str, Any]) -> np.ndarray:
    """Read one array back, in its own type and shape."""
    stored = np.dtype(entry["stored"])
    with archive.open(name + SUFFIX) as member:
        with zstandard.ZstdDecompressor().stream_reader(member, closefd=False) as frame:
            head = io.BytesIO(_exactly(frame, 10))
            np.lib.format.read_magic(head)
            length = int.from_bytes(head.read(2), "little")
            # The header of the member only serves other readers; ours is in the metadata.
            _exactly(frame, length)
            read = _read_full if entry["form"] == "full" else _read_triangle
            array = read(frame, entry, stored)
            if frame.read(1):
                raise ValueError(f"array {name!r} is longer than its shape says")
        if member.read(1):  # reading to the end makes zipfile check its CRC-32
            raise ValueError(f"array {name!r} is followed by other bytes")
    return array


def _exactly(frame: Any, n_bytes: int) -> bytearray:
    """Read a known number of bytes."""
    data = bytearray(n_bytes)
    view, filled = memoryview(data), 0
    while filled < n_bytes:
        got = frame.readinto(view[filled:])
        if not got:
            raise EOFError(f"{n_bytes - filled} bytes are missing")
        filled += got
    return data


def _read_full(frame: Any, entry: dict[str, Any], stored: np.dtype) -> np.ndarray:
    """Read an array that is stored whole, piece by piece."""
    array = np.empty(entry["shape"], dtype=np.dtype(entry["dtype"]))
    flat = array.reshape(-1)
    for start, stop in _row_blocks(flat.size, stored.itemsize):
        flat[start:stop] = np.frombuffer(_exactly(frame, (stop - start) * stored.itemsize), dtype=stored)
    return array


def _read_triangle(frame: Any, entry: dict[str, Any], stored: np.dtype) -> np.ndarray:
    """Read a matrix that is stored as its upper triangle."""
    array = np.zeros(entry["shape"], dtype=np.dtype(entry["dtype"]))
    n = len(array)
    for start, stop in _row_blocks(n, n * stored.itemsize):
        n_entries = sum(n - i for i in range(start, stop))
        values = np.frombuffer(_exactly(frame, n_entries * stored.itemsize), dtype=stored)
        position = 0
        for i in range(start, stop):
            array[i, i:] = values[position : position + n - i]
            position += n - i
        if entry["form"] == "symmetric":
            array[start:stop, :start] = array[:start, start:stop].T
            block = array[start:stop, start:stop]
            below = np.tril_indices(len(block), k=-1)
            block[below] = block.T[below]
            array[stop:, start:stop] = array[start:stop, stop:].T
    return array
