"""Local files that survive a crash: fsync, digests, names of unfinished files, and errors as sentences."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO, Any

import google_crc32c
import numpy as np

from daskrf.errors import InputError, StoreError

__all__ = [
    "ObjectError",
    "canonical_json",
    "crc32c_of",
    "digests_of",
    "digests_of_file",
    "digests_of_stream",
    "file_errors",
    "private_folder",
    "sync_folders",
    "temporary_name",
    "work_folder",
]

TEMPORARY = ".tmp-"
_OURS = re.compile(r"\.tmp-.+~[^~]+~[0-9]+~[0-9a-z_]{8}", re.DOTALL)  # a name that `temporary_name` made
_LONGEST = 120  # bytes of what a temporary file is to become that its own name shows: 255 are the most
STALE_SECONDS = 24 * 3600.0
READ_BYTES = 4 << 20

_REASONS = {
    errno.ENOSPC: "no space is left on the device; free some and run the same command again, "
    "finished partitions are kept",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again, "
    "finished partitions are kept",
    errno.EACCES: "permission denied; check who owns it, or give another path",
    errno.EPERM: "the operation is not permitted; check who owns it, or give another path",
    errno.EROFS: "the file system is read-only; give another path",
    errno.ENOENT: "no such file or directory; check the path",
    errno.EEXIST: "a file of that name is there already; give another path",
    errno.ENOTDIR: "a part of the path is a file, not a directory; check the path",
    errno.EIO: "Input/output error; check the disk or the network, then run the same command again",
    errno.ESTALE: "the file server has lost the file; check the network, then run the same command again",
    errno.ENAMETOOLONG: "the name is too long; give a shorter one",
    errno.EMFILE: "too many files are open; raise the limit with `ulimit -n`",
}


class ObjectError(OSError):
    """What an object storage says in place of an answer; its ``strerror`` is a phrase for users."""


@contextmanager
def file_errors(action: str, path: PurePath | str) -> Iterator[None]:
    """Turn an ``OSError`` inside the block into one `StoreError` sentence that names the path.

    Parameters
    ----------
    action : str
        What was being done, such as ``"write"``.
    path : path
        What it was done to, used where the error itself names no file.

    Raises
    ------
    StoreError
        In place of any ``OSError``, with its ``errno``.

    Examples
    --------
    >>> with file_errors("read", "absent.json"):
    ...     open("absent.json").close()
    Traceback (most recent call last):
    daskrf.errors.StoreError: cannot read absent.json: no such file or directory; check the path
    """
    try:
        yield
    except OSError as error:
        known = None if isinstance(error, ObjectError) else _REASONS.get(error.errno or 0)
        reason = known or error.strerror or str(error)
        raise StoreError(f"cannot {action} {path}: {reason}", errno=error.errno) from error


def canonical_json(value: Any) -> bytes:
    """JSON text with sorted keys and no spaces, the form that is hashed.

    Parameters
    ----------
    value : object
        Anything made of dict, list, str, int, float, bool and None; NaN is refused.

    Returns
    -------
    bytes
        UTF-8 text.

    Raises
    ------
    ValueError, TypeError
        For values that JSON does not have.

    Examples
    --------
    >>> canonical_json({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode(errors="surrogatepass")  # names of files that are not UTF-8 hold surrogates


def crc32c_of(data: bytes) -> str:
    """CRC32C of some bytes as eight hexadecimal digits.

    Examples
    --------
    >>> crc32c_of(b"123456789")
    'e3069283'
    """
    return f"{google_crc32c.value(data):08x}"


def digests_of(data: bytes) -> tuple[int, str, str]:
    """What `digests_of_stream` returns, of the bytes of a whole file.

    Examples
    --------
    >>> digests_of(b"123456789")
    (9, 'e3069283', '18d12335')
    """
    body = google_crc32c.value(np.frombuffer(data, np.uint8)[:-4])
    return len(data), f"{google_crc32c.extend(body, data[-4:]):08x}", f"{body:08x}"


def digests_of_stream(file: IO[bytes]) -> tuple[int, str, str]:
    """Size and CRC32C of the rest of an open file, and CRC32C of all but its last four bytes.

    A file that ends in its own CRC32C, as chunks do, has the same CRC32C as every other such file: only
    without these bytes does it tell one from another.
    """
    size, body, held = 0, 0, b""
    while piece := file.read(READ_BYTES):
        size += len(piece)
        piece = held + piece
        body, held = google_crc32c.extend(body, piece[:-4]), piece[-4:]
    return size, f"{google_crc32c.extend(body, held):08x}", f"{body:08x}"


def digests_of_file(path: Path, sync: bool = False) -> tuple[int, str, str]:
    """What `digests_of_stream` returns of a file, read once; with `sync` it is forced to the disk too.

    Parameters
    ----------
    path : Path
        The file.
    sync : bool
        Call ``fsync`` before returning.

    Returns
    -------
    (int, str, str)
        Bytes, and twice eight hexadecimal digits.

    Raises
    ------
    OSError
        Where the file cannot be read.
    """
    with path.open("rb") as file:
        found = digests_of_stream(file)
        if sync:
            os.fsync(file.fileno())
    return found


def sync_directory(path: Path) -> None:
    """Force the entries of a directory to the disk, where the file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems refuse fsync on a directory; they write its entries synchronously.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def sync_folders(root: Path, paths: Iterable[Path]) -> None:
    """Force every directory between files and `root` to the disk."""
    folders = {parent for path in paths for parent in path.parents if parent.is_relative_to(root)}
    for folder in sorted({root, *folders}, reverse=True):
        sync_directory(folder)


def temporary_name(stem: str) -> str:
    """A name for an unfinished file or directory: it says which process of which host is at work on it."""
    return f"{_prefix(stem)}{socket.gethostname()}~{os.getpid()}~{uuid.uuid4().hex[:8]}"


def _prefix(stem: str) -> str:
    """What the temporary names of one file begin with; one whose own name is nearly too long has room."""
    if len(os.fsencode(stem)) > _LONGEST:
        stem = hashlib.sha256(os.fsencode(stem)).hexdigest()[:32]
    return f"{TEMPORARY}{stem}~"


def work_folder(output: PurePath) -> PurePath:
    """The folder of unfinished work on an output, beside it: its name says whose it is, who may delete it.

    Examples
    --------
    >>> work_folder(Path("screens/hits.parquet")).as_posix()
    'screens/.hits.parquet.daskrf'
    """
    return output.parent / f".{output.name}.daskrf"


def private_folder() -> Path:
    """Return this user's folder of temporary files for what is uploaded, which is made, and nobody else's.

    Where temporary files are, everybody can write, and make a folder of this name first: what is put into
    it, and deleted in it, must be this user's.

    Raises
    ------
    InputError
        Somebody else has made it, others may read or write in it, or it is a link.
    """
    folder = Path(tempfile.gettempdir(), f"daskrf-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InputError(
            f"The folder {folder} for temporary files belongs to another user, is open to others, or is a "
            "link; delete it, or set TMPDIR to a folder of your own."
        )
    return folder


def is_gone(host: Any, pid: Any) -> bool:
    """Whether a process is known to have ended: only one of this host can be looked at."""
    if host != socket.gethostname() or not (isinstance(pid, int) and 0 < pid < 2**31):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _is_stale(entry: os.DirEntry[str]) -> bool:
    """Whether the writer of a temporary name is gone: dead on this host, or silent for a day."""
    _, host, pid, _ = entry.name.rsplit("~", 3)
    if is_gone(host, int(pid)):
        return True
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE_SECONDS


def remove_stale(directory: Path, stem: str = "", *, all_writers: bool = False) -> int:
    """Delete what dead writers left in a directory; what living ones are at work on stays.

    Only what bears a name as `temporary_name` makes them is ever deleted.

    Parameters
    ----------
    directory : Path
        A directory of a store; of any other, give `stem`.
    stem : str
        Name of the finished file, if only what was to become that is meant.
    all_writers : bool
        Treat all writers as dead, including those on other hosts, which cannot be checked from here.

    Returns
    -------
    int
        Number of files and directories deleted.
    """
    removed = 0
    prefix = _prefix(stem) if stem else TEMPORARY
    with suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if not (entry.name.startswith(prefix) and _OURS.fullmatch(entry.name)):
                continue
            # A writer that is alive after all, or a read-only disk, may make it impossible: it does no harm.
            with suppress(OSError):
                if all_writers or _is_stale(entry):
                    remove(Path(entry.path))
                    removed += 1
    return removed


def remove(path: Path) -> None:
    """Delete a local file or a whole directory; nothing happens where there is none."""
    try:
        path.unlink(missing_ok=True)
    except (IsADirectoryError, PermissionError):
        if not path.is_dir():
            raise
        shutil.rmtree(path)
