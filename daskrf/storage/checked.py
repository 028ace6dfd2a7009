"""What is read of a store: regular files inside it, and JSON that carries its own digest.

A store may come from anybody and lie on any disk. So nothing outside it is read for it: no link is followed
on the way from its directory to a file, and what is no regular file is not opened for long. And a flipped bit
is never a result: JSON that results depend on ends in the CRC32C of all that stands before.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from daskrf.errors import DaskrfError, StoreError, printable
from daskrf.paths import ObjectPath
from daskrf.storage.files import atomic_write, crc32c_of, file_errors

__all__ = [
    "DAMAGE",
    "believed",
    "folder_inside",
    "is_sealed",
    "open_inside",
    "parsed",
    "read_at",
    "read_inside",
    "read_sealed",
    "sealed",
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
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# To open a pipe would wait for its writer without O_NONBLOCK.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def parsed(data: bytes) -> Any:
    """Return the value of JSON text.

    Raises
    ------
    ValueError
        It is no JSON, or nested too deeply.
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
        raise ValueError("it is no object of JSON")
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


def write_sealed(path: Path, value: dict[str, Any], keep: bool = False) -> None:
    """Write an object as JSON that is `sealed`, in one step; `keep` as of `atomic_write`."""
    atomic_write(path, sealed(json.dumps(value).encode()), keep)


def read_sealed(path: Path, advice: str) -> dict[str, Any]:
    """Return the object that `write_sealed` wrote.

    Raises
    ------
    StoreError
        It is not there, cannot be read, or is not what was written; `advice` says what to do then.
    """
    with file_errors("read", path), believed(path, advice):
        return unsealed(path.read_bytes())


def open_inside(root: Path, name: str) -> IO[bytes]:
    """Open a file of a store or of another folder, that is in it: no link is followed below `root`.

    Parameters
    ----------
    root : Path
        A directory, which may itself be a link, or an `ObjectPath`.
    name : str
        Relative to it, without ``..``.

    Raises
    ------
    OSError
        It is not there, or cannot be opened.
    ValueError
        A link, a pipe or the like stands in its place, or in that of a folder on the way.
    """
    if isinstance(root, ObjectPath):
        return (root / name).open("rb")
    folder, _, last = name.rpartition("/")
    with folder_inside(root, folder) as at:
        return os.fdopen(_file(at, last, name), "rb")


def read_inside(root: Path, name: str) -> bytes:
    """Return the content of a file that `open_inside` opens."""
    if isinstance(root, ObjectPath):
        return (root / name).read_bytes()
    folder, _, last = name.rpartition("/")
    with folder_inside(root, folder) as at:
        return read_at(at, last, name)


@contextmanager
def folder_inside(root: Path, name: str) -> Iterator[int]:
    """Open a folder of a local store for `read_at`, or with an empty name the store; see `open_inside`."""
    at = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for part in name.split("/") if name else ():
            if part in ("", ".", ".."):
                raise ValueError(f"{name!r} is no name below a folder")
            with _regular(name):
                below = os.open(part, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def read_at(folder: int, last: str, name: str) -> bytes:
    """Return the content of a file of a folder that `folder_inside` opened; `name` is for messages."""
    with os.fdopen(_file(folder, last, name), "rb", buffering=0) as file:
        return file.read()


def _file(folder: int, last: str, name: str) -> int:
    """Open a regular file of an open folder."""
    if last in ("", ".", "..") or "/" in last:
        raise ValueError(f"{name!r} is no name below a folder")
    with _regular(name):
        file = os.open(last, _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ValueError(f"{name} is a link, or not a regular file")
    return file


@contextmanager
def _regular(name: str) -> Iterator[None]:
    """Turn what is raised on links, and on files in place of folders, into a `ValueError`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise ValueError(f"{name} is a link, or not a regular file") from None
        raise
