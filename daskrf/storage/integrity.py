"""Integrity of stores: regular files with recorded digests, and JSON that carries its own checksum.

A store may come from anybody and be on any disk. So nothing outside it is ever read: no link is followed
between its directory and a file, and only regular files are read. A flipped bit never becomes a result:
JSON that results depend on ends in the CRC32C of everything before it.
"""

from __future__ import annotations

import builtins
import io
import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from daskrf.documents import JsonObject
from daskrf.errors import DaskrfError, StoreError, printable
from daskrf.files.backend import atomic_write, backend, local_copy, pairs, sizes_of
from daskrf.files.disk import crc32c_of, digests_of, digests_of_file, digests_of_stream, file_errors

# What code raises on unexpected content: values of the wrong type, shape, depth or size.
DAMAGE = (
    *(ArithmeticError, AssertionError, AttributeError, EOFError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)
_SEAL = b',"crc32c":"%s"}'
_SEAL_BYTES = len(_SEAL % b"00000000")


def parsed(data: bytes) -> Any:
    """Return the value of JSON text.

    Raises
    ------
    ValueError
        It is not JSON, or is nested too deeply.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def sealed(text: bytes) -> bytes:
    """Return the JSON text of an object with the CRC32C of the text as its last entry.

    Examples
    --------
    >>> sealed(b'{"rows": 3}')
    b'{"rows": 3,"crc32c":"50c3f486"}'
    >>> unsealed(sealed(b'{"rows": 3}'))["rows"]
    3
    """
    # It comes last so that a reader can check the text without serializing it again.
    body = text[:-1].rstrip()
    return body + _SEAL % crc32c_of(body + b"}").encode()


def is_sealed(data: bytes) -> bool:
    """Return whether JSON text ends in a checksum, as made by `sealed`; `unsealed` checks its value."""
    return data[-_SEAL_BYTES:].startswith(_SEAL[: -len(b'%s"}')])


def unsealed(data: bytes) -> JsonObject:
    """Return the object in a text made by `sealed`.

    Raises
    ------
    ValueError
        The text is truncated, was altered, or is not an object.
    """
    body = data[:-_SEAL_BYTES] + b"}"
    if data[-_SEAL_BYTES:] != _SEAL % crc32c_of(body).encode():
        raise ValueError("its content does not match its CRC32C")
    value = parsed(body)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


@contextmanager
def as_damage(
    path: str | PurePath, advice: str = "restore it from a copy, or make it again"
) -> Iterator[None]:
    """Turn errors that a block raises on values of the wrong type or shape into one `StoreError` sentence.

    This is for content that has the right digest but makes no sense, as in a file not written by daskrf.

    Parameters
    ----------
    path : path
        Where the values come from.
    advice : str
        What the user should do.

    Raises
    ------
    StoreError
        In place of `DAMAGE`.

    Examples
    --------
    >>> with as_damage("s/plan.json", "make it again"):
    ...     {}["kind"]
    Traceback (most recent call last):
    daskrf.errors.StoreError: s/plan.json is damaged, or not a daskrf file (it has no 'kind'); make it again
    """
    try:
        yield
    except DaskrfError:
        raise
    except MemoryError as error:
        raise StoreError(f"{path} needs more memory than there is ({error}); {advice}") from error
    except DAMAGE as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise StoreError(
            f"{path} is damaged, or not a daskrf file ({printable(reason, 200)}); {advice}"
        ) from error


def write_sealed(path: PurePath, value: Mapping[str, object], keep: bool = False) -> None:
    """Write an object atomically as `sealed` JSON; for `keep` see `atomic_write`."""
    atomic_write(path, sealed(json.dumps(value).encode()), keep)


def read_sealed(path: PurePath, advice: str) -> JsonObject:
    """Return the object written by `write_sealed`.

    Raises
    ------
    StoreError
        The file is missing, unreadable or altered; `advice` tells the user what to do.
    """
    with file_errors("read", path), as_damage(path, advice):
        return unsealed(backend(path).read(path))


def load_array(path: PurePath, checksum: str) -> np.ndarray:
    """Map an ``.npy`` file into memory; an object is copied to a local file that lives as long as the map.

    Parameters
    ----------
    path : Path
        File written by `save_array`.
    checksum : str
        What `save_array` returned.

    Raises
    ------
    StoreError
        The file cannot be read or was altered.
    """
    with file_errors("read", path), local_copy(path) as file:
        if digests_of_file(file)[1] != checksum:
            raise StoreError(f"{path} is damaged; run the same command again, which makes it anew")
        return np.load(file, mmap_mode="r")


def release(array: np.ndarray) -> None:
    """Give the memory of a mapped file back that has been read; it is read again where it is needed.

    Pages of a mapped file count as memory of a process until the system needs room for others.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def save_array(path: PurePath, values: np.ndarray, keep: bool = False) -> str:
    """Write an ``.npy`` file atomically and return its CRC32C.

    Parameters
    ----------
    path : Path
        Final name; its directory must exist.
    values : ndarray
        Numeric array.
    keep : bool
        Keep a file that already exists, or that another process writes meanwhile.

    Raises
    ------
    StoreError
        Disk full, no permission, and so on: ``np.save`` reports neither the file nor the reason.
    """
    with array_writer(path, values.shape, values.dtype, keep) as writer:
        writer.append(values)
    return writer.checksum


class ArrayWriter:
    """Writes the rows of an ``.npy`` file, some at a time, and sums up its CRC32C."""

    def __init__(self, file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
        self._file, self._dtype, self._crc, self._left = file, dtype, 0, shape[0] if shape else 1
        header = io.BytesIO()
        descr = np.lib.format.dtype_to_descr(dtype)
        np.lib.format.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
        self._write(header.getvalue())

    @property
    def checksum(self) -> str:
        """The CRC32C of what has been written."""
        return f"{self._crc:08x}"

    @property
    def left(self) -> int:
        """How many rows are still to be written."""
        return self._left

    def append(self, rows: np.ndarray) -> None:
        """Write some rows more."""
        self._write(np.ascontiguousarray(rows, self._dtype).reshape(-1).view(np.uint8))
        self._left -= len(rows) if rows.ndim else 1

    def _write(self, data: npt.NDArray[np.uint8] | bytes) -> None:
        self._file.write(data if isinstance(data, bytes) else data.data)
        self._crc = google_crc32c.extend(self._crc, data)


@contextmanager
def array_writer(
    path: PurePath, shape: tuple[int, ...], dtype: npt.DTypeLike, keep: bool = False
) -> Iterator[ArrayWriter]:
    """Yield what writes an ``.npy`` file of this shape, which appears when all its rows are written.

    Parameters are as in `save_array`.

    Raises
    ------
    StoreError
        As in `save_array`.
    """
    with (
        file_errors("write", path),
        backend(path).writing(path, keep) as temporary,
        open(temporary, "wb") as file,
    ):
        writer = ArrayWriter(file, shape, np.dtype(dtype))
        yield writer
        if writer.left:
            raise ValueError(f"{path} lacks {writer.left} rows; this is a defect of the caller")


class StoredObject(NamedTuple):
    """One file of a partition, a model or a checkpoint.

    Attributes
    ----------
    path : str
        Relative to the store or model, POSIX form.
    bytes : int
        Its size.
    crc32c : str
        Eight hexadecimal digits.
    body : str
        CRC32C of all but its last four bytes, which distinguishes chunks (see `digests_of_stream`).
    """

    path: str
    bytes: int
    crc32c: str
    body: str

    def read(self, root: PurePath) -> builtins.bytes:
        """Return the content of the file in the store at `root`, checked against its digests.

        Raises
        ------
        OSError
            It cannot be read.
        ValueError
            It is missing, or differs from what was recorded.
        """
        try:
            data = backend(root).read(root, self.path, self.bytes)  # there is no need to read beyond its size
        except FileNotFoundError:
            raise ValueError(f"{self.path} is missing") from None
        self._check(*digests_of(data))
        return data

    def problem(self, root: PurePath) -> str | None:
        """Return what is wrong with the file, read piece by piece; None if it matches its digests."""
        try:
            with backend(root).open(root, self.path) as file:
                self._check(*digests_of_stream(file))
        except FileNotFoundError:
            return f"{self.path} is missing"
        except ValueError as error:
            return str(error)
        return None

    def _check(self, size: int, checksum: str | None = None, body: str | None = None) -> None:
        if size != self.bytes:
            raise ValueError(f"{self.path} has {size} bytes instead of {self.bytes}")
        if checksum is not None and checksum != self.crc32c:
            raise ValueError(f"{self.path} has CRC32C {checksum} instead of {self.crc32c}")
        if body is not None and body != self.body:
            raise ValueError(f"{self.path} is another file (CRC32C {body} instead of {self.body})")


def staged_objects(root: PurePath, staged: dict[PurePath, Path]) -> tuple[StoredObject, ...]:
    """Return every file among staged files and directories (final name below `root` -> staged), sorted."""
    start = len(str(root)) + 1
    objects = (StoredObject(str(final)[start:], *digests_of_file(file)) for file, final in pairs(staged))
    return tuple(sorted(objects))


def listed_objects(items: Sequence[tuple[str, int, str, str]]) -> tuple[StoredObject, ...]:
    """Return the files that a record lists.

    Raises
    ------
    ValueError, TypeError
        An entry is of the wrong type.
    """
    objects = tuple(StoredObject(*item) for item in items)
    for path, size, *digests in objects:
        if not (isinstance(path, str) and is_count(size) and all(isinstance(text, str) for text in digests)):
            raise ValueError(f"what it says of {path} is of the wrong type")
    return objects


@dataclass(frozen=True)
class FileList:
    """The files of a partition, model or checkpoint, which is written once.

    Attributes
    ----------
    objects : tuple of StoredObject
    """

    objects: tuple[StoredObject, ...]

    @property
    def bytes(self) -> int:
        """Total size of all files in bytes."""
        return sum(item.bytes for item in self.objects)

    def read(self, root: PurePath, name: str) -> builtins.bytes:
        """Return the content of the file `name` below `root`; see `StoredObject.read`.

        Raises
        ------
        OSError
            It cannot be read.
        ValueError
            It is not in this record, is missing, or differs from what was recorded.
        """
        for item in self.objects:
            if item.path == name:
                return item.read(root)
        raise ValueError(f"its record does not name {name}")

    def missing(self, root: PurePath, sizes: dict[str, int] | None = None) -> str | None:
        """Return which file is missing or has the wrong size (by `sizes`, if given); None if none is."""
        sizes = sizes_of(root, [item.path for item in self.objects]) if sizes is None else sizes
        for item in self.objects:
            size = sizes.get(item.path)
            if size is None:
                return f"{item.path} is missing"
            if size != item.bytes:
                return f"{item.path} has {size} bytes instead of {item.bytes}"
        return None

    def problems(self, root: PurePath) -> list[str]:
        """Check every digest and return what is wrong."""
        return [problem for item in self.objects if (problem := item.problem(root))]


def is_count(value: object) -> bool:
    """Return whether a JSON value is a count: an integer of at least 0 and below 2**63."""
    return type(value) is int and 0 <= value < 2**63
