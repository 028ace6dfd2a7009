"""What is read of a store: regular files whose digests are recorded, and JSON that carries its own.

A store may come from anybody and lie on any disk. So nothing outside it is read for it: no link is followed
on the way from its directory to a file, and what is not a regular file is not read. And a flipped bit
is never a result: JSON that results depend on ends in the CRC32C of all that stands before.
"""

from __future__ import annotations

import builtins
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import google_crc32c
import numpy as np

from daskrf.errors import DaskrfError, StoreError, printable
from daskrf.storage.backend import atomic_write, backend, local_copy, pairs, sizes_of
from daskrf.storage.files import crc32c_of, digests_of, digests_of_file, digests_of_stream, file_errors

__all__ = [
    "DAMAGE",
    "FileList",
    "StoredObject",
    "believed",
    "is_count",
    "is_sealed",
    "listed_objects",
    "load_array",
    "parsed",
    "read_sealed",
    "save_array",
    "sealed",
    "staged_objects",
    "unsealed",
    "write_sealed",
]

# What code raises on content that it was not written for: values of another type, shape, depth or size.
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
    # Last, so that a reader can check the text without writing it anew.
    body = text[:-1].rstrip()
    return body + _SEAL % crc32c_of(body + b"}").encode()


def is_sealed(data: bytes) -> bool:
    """Whether JSON text ends as `sealed` ends it; `unsealed` checks that it does so rightly."""
    return data[-_SEAL_BYTES:].startswith(_SEAL[: -len(b'%s"}')])


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the object of a text that `sealed` made.

    Raises
    ------
    ValueError
        The text is not whole, not what was written, or no object.
    """
    body = data[:-_SEAL_BYTES] + b"}"
    if data[-_SEAL_BYTES:] != _SEAL % crc32c_of(body).encode():
        raise ValueError("its content does not match its CRC32C")
    value = parsed(body)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


@contextmanager
def believed(
    path: str | os.PathLike[str], advice: str = "restore it from a copy, or make it again"
) -> Iterator[None]:
    """Turn what a block raises on values of the wrong type or shape into one `StoreError` sentence.

    For what has the right digest and yet makes no sense, as a file that daskrf has not written may.

    Parameters
    ----------
    path : path
        Where the values come from.
    advice : str
        What to do.

    Raises
    ------
    StoreError
        In place of `DAMAGE`.

    Examples
    --------
    >>> with believed("s/plan.json", "make it again"):
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


def write_sealed(path: PurePath, value: dict[str, Any], keep: bool = False) -> None:
    """Write an object as JSON that is `sealed`, in one step; `keep` as of `atomic_write`."""
    atomic_write(path, sealed(json.dumps(value).encode()), keep)


def read_sealed(path: PurePath, advice: str) -> dict[str, Any]:
    """Return the object that `write_sealed` wrote.

    Raises
    ------
    StoreError
        It is not there, cannot be read, or is not what was written; `advice` says what to do then.
    """
    with file_errors("read", path), believed(path, advice):
        return unsealed(backend(path).read(path))


def load_array(path: PurePath, checksum: str) -> np.ndarray:
    """Map an ``.npy`` file into memory; that of an object is a local copy, deleted when nothing maps it.

    Parameters
    ----------
    path : Path
        What `save_array` wrote.
    checksum : str
        What it returned.

    Raises
    ------
    StoreError
        It cannot be read, or is not what was written.
    """
    with file_errors("read", path), local_copy(path) as file:
        if digests_of_file(file)[1] != checksum:
            raise StoreError(f"{path} is damaged; run the same command again, which makes it anew")
        return np.load(file, mmap_mode="r")


def save_array(path: PurePath, values: np.ndarray, keep: bool = False) -> str:
    """Write a .npy file in one step; return its CRC32C.

    Parameters
    ----------
    path : Path
        Final name; its directory exists.
    values : ndarray
        Of numbers.
    keep : bool
        Leave a file alone that is there already, or comes there meanwhile.

    Raises
    ------
    StoreError
        Disk full, no permission, and so on: ``np.save`` says neither which file nor why.
    """
    values, header = np.ascontiguousarray(values), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(values))
    data = values.reshape(-1).view(np.uint8)
    with (
        file_errors("write", path),
        backend(path).writing(path, keep) as temporary,
        open(temporary, "wb") as file,
    ):
        file.write(header.getbuffer())
        file.write(data.data)
    return f"{google_crc32c.extend(google_crc32c.value(header.getvalue()), data):08x}"


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
        CRC32C of all but its last four bytes, which tells a chunk from another (see `digests_of_stream`).
    """

    path: str
    bytes: int
    crc32c: str
    body: str

    def read(self, root: PurePath) -> builtins.bytes:
        """Return the file, of the store at `root`, if it is what was recorded.

        Raises
        ------
        OSError
            It cannot be read.
        ValueError
            It is gone, or not what was recorded.
        """
        try:
            data = backend(root).read(root, self.path, self.bytes)  # no more than its size tells
        except FileNotFoundError:
            raise ValueError(f"{self.path} is missing") from None
        self._check(*digests_of(data))
        return data

    def problem(self, root: PurePath) -> str | None:
        """Say what is wrong with the file, read piece by piece; None where it is what was recorded."""
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
    """Return every file among staged files and directories (final name below `root` -> staged), sorted.

    Local ones are forced to the disk.
    """
    start, sync = len(str(root)) + 1, backend(root).is_local
    return tuple(
        sorted(
            StoredObject(str(final)[start:], *digests_of_file(file, sync)) for file, final in pairs(staged)
        )
    )


def listed_objects(items: list[Any]) -> tuple[StoredObject, ...]:
    """Return the files that a record lists.

    Raises
    ------
    ValueError, TypeError
        What it says of them is of the wrong type.
    """
    objects = tuple(StoredObject(*item) for item in items)
    for path, size, *digests in objects:
        if not (isinstance(path, str) and is_count(size) and all(isinstance(text, str) for text in digests)):
            raise ValueError(f"what it says of {path} is of the wrong type")
    return objects


@dataclass(frozen=True)
class FileList:
    """All files of something that is written once.

    Attributes
    ----------
    objects : tuple of StoredObject
    """

    objects: tuple[StoredObject, ...]

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(item.bytes for item in self.objects)

    def read(self, root: PurePath, name: str) -> builtins.bytes:
        """Return the file `name`, below `root`; see `StoredObject.read`.

        Raises
        ------
        OSError
            It cannot be read.
        ValueError
            It is not in this record, is gone, or is not what was recorded.
        """
        for item in self.objects:
            if item.path == name:
                return item.read(root)
        raise ValueError(f"its record does not name {name}")

    def missing(self, root: PurePath, sizes: dict[str, int] | None = None) -> str | None:
        """Say which file is gone or of another size (by `sizes`, if given); None where all are there."""
        sizes = sizes_of(root, [item.path for item in self.objects]) if sizes is None else sizes
        for item in self.objects:
            size = sizes.get(item.path)
            if size is None:
                return f"{item.path} is missing"
            if size != item.bytes:
                return f"{item.path} has {size} bytes instead of {item.bytes}"
        return None

    def problems(self, root: PurePath) -> list[str]:
        """Check every digest, and say what is wrong."""
        return [problem for item in self.objects if (problem := item.problem(root))]


def is_count(value: object) -> bool:
    """Whether a value that JSON holds is the number of something."""
    return type(value) is int and 0 <= value < 2**63
