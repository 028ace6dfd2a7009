"""Crash-safe local files: fsync, digests, temporary names, and errors as sentences."""

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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO

import google_crc32c
import numpy as np

from daskrf.errors import InputError, StoreError

TEMPORARY = ".tmp-"
_OURS = re.compile(r"\.tmp-.+~[^~]+~[0-9]+~[0-9a-z_]{8}", re.DOTALL)  # names made by `temporary_name`
_LONGEST = 120  # bytes of the final name that a temporary name may contain; file names have 255 at most
STALE_SECONDS = 24 * 3600.0
_PAUSES = tuple(0.01 * 2**i for i in range(8))  # seconds between the tries to delete a folder: 2.6 s in all
READ_BYTES = 4 << 20
_FLUSHES = 16  # at once

_REASONS = {
    errno.ENOSPC: "no space is left on the device; free some and run the same command again "
    "(finished partitions are kept)",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again "
    "(finished partitions are kept)",
    errno.EACCES: "permission denied; check who owns it, or give another path",
    errno.EPERM: "the operation is not permitted; check who owns it, or give another path",
    errno.EROFS: "the file system is read-only; give another path",
    errno.ENOENT: "no such file or directory; check the path",
    errno.EEXIST: "a file of that name already exists; give another path",
    errno.ENOTDIR: "a part of the path is a file, not a directory; check the path",
    errno.EIO: "Input/output error; check the disk or the network, then run the same command again",
    errno.ESTALE: "the file server has lost the file; check the network, then run the same command again",
    errno.ENAMETOOLONG: "the name is too long; give a shorter one",
    errno.EMFILE: "too many files are open; raise the limit with `ulimit -n`",
}


class ObjectError(OSError):
    """An error from object storage; its ``strerror`` is a phrase for users."""


@contextmanager
def file_errors(action: str, path: PurePath | str) -> Iterator[None]:
    """Turn an ``OSError`` inside the block into one `StoreError` sentence that names the path.

    Parameters
    ----------
    action : str
        What was being done, such as ``"write"``.
    path : path
        The path to name in the message.

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
        phrase = None if isinstance(error, ObjectError) else _REASONS.get(error.errno or 0)
        reason = phrase or error.strerror or str(error)
        raise StoreError(f"cannot {action} {path}: {reason}", errno=error.errno) from error


def canonical_json(value: object) -> bytes:
    """Return JSON text with sorted keys and no spaces, the form that is hashed.

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
        A value has no JSON form.

    Examples
    --------
    >>> canonical_json({"b": 1, "a": [True, None]})
    b'{"a":[true,null],"b":1}'
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode(errors="surrogatepass")  # file names that are not UTF-8 contain surrogates


def crc32c_of(data: bytes) -> str:
    """Return the CRC32C of some bytes as eight hexadecimal digits.

    Examples
    --------
    >>> crc32c_of(b"123456789")
    'e3069283'
    """
    return f"{google_crc32c.value(data):08x}"


def digests_of(data: bytes) -> tuple[int, str, str]:
    """Return the same as `digests_of_stream`, for the bytes of a whole file.

    Examples
    --------
    >>> digests_of(b"123456789")
    (9, 'e3069283', '18d12335')
    """
    body = google_crc32c.value(np.frombuffer(data, np.uint8)[:-4])
    return len(data), f"{google_crc32c.extend(body, data[-4:]):08x}", f"{body:08x}"


def digests_of_stream(file: IO[bytes]) -> tuple[int, str, str]:
    """Return size and CRC32C of the rest of an open file, and CRC32C of all but its last four bytes.

    Files that end in their own CRC32C, as chunks do, all have the same CRC32C as a whole; only the CRC32C
    without these last bytes distinguishes them.
    """
    size, body, held = 0, 0, b""
    while piece := file.read(READ_BYTES):
        size += len(piece)
        piece = held + piece
        body, held = google_crc32c.extend(body, piece[:-4]), piece[-4:]
    return size, f"{google_crc32c.extend(body, held):08x}", f"{body:08x}"


def digests_of_file(path: Path) -> tuple[int, str, str]:
    """Return the same as `digests_of_stream`, for a file read once.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    (int, str, str)
        Size in bytes, and two checksums of eight hexadecimal digits.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    with path.open("rb") as file:
        return digests_of_stream(file)


def sync_directory(path: Path) -> None:
    """Flush the entries of a directory to disk, if the file system supports it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems refuse fsync on a directory; they write its entries synchronously.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def sync_files(root: Path, files: Iterable[Path]) -> None:
    """Flush files, and every directory from `root` down to them, to disk.

    Each flush waits for the disk; those that wait at the same time take about as long as one.
    """
    files = list(files)
    folders = {parent for file in files for parent in file.parents if parent.is_relative_to(root)}
    with ThreadPoolExecutor(_FLUSHES) as pool:
        flushes = [pool.submit(_sync_file, file) for file in files]
        flushes += [pool.submit(sync_directory, folder) for folder in sorted({root, *folders})]
    for flush in flushes:
        flush.result()


def _sync_file(path: Path) -> None:
    """Flush the content of a file to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def temporary_name(stem: str) -> str:
    """Return a name for an unfinished file or directory; it contains the writer's host and process ID."""
    return f"{_prefix(stem)}{socket.gethostname()}~{os.getpid()}~{uuid.uuid4().hex[:8]}"


def _prefix(stem: str) -> str:
    """Return the prefix of the temporary names of a file; a long name is replaced by its hash."""
    if len(os.fsencode(stem)) > _LONGEST:
        stem = hashlib.sha256(os.fsencode(stem)).hexdigest()[:32]
    return f"{TEMPORARY}{stem}~"


def work_folder(output: PurePath) -> PurePath:
    """Return the folder of unfinished work on an output, which is beside the output and named after it.

    Examples
    --------
    >>> work_folder(Path("screens/hits.parquet")).as_posix()
    'screens/.hits.parquet.daskrf'
    """
    return output.parent / f".{output.name}.daskrf"


def is_work_folder(folder: PurePath) -> bool:
    """Return whether the name of a folder is that of a folder of unfinished work.

    Examples
    --------
    >>> is_work_folder(Path(".hits.parquet.daskrf")), is_work_folder(Path("hits.daskrf"))
    (True, False)
    """
    return folder.name.startswith(".") and folder.name.endswith(".daskrf")


def private_folder(base: Path | None = None) -> Path:
    """Return this user's private folder for temporary files, creating it if needed.

    Everybody can write to the system's folder of temporary files, so another user could create a folder of
    this name first. Files must only be written and deleted in a folder that belongs to this user.

    Parameters
    ----------
    base : Path, optional
        Its parent; default: the system's folder of temporary files.

    Raises
    ------
    InputError
        It belongs to another user, others may read or write it, or it is a link.
    """
    folder = Path(base or tempfile.gettempdir(), f"daskrf-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise InputError(
            f"The folder {folder} for temporary files belongs to another user, is open to others, or is a "
            "link; delete it, or set TMPDIR to a folder of your own."
        )
    return folder


def is_gone(host: object, pid: object) -> bool:
    """Return whether a program is known to have ended; only those on this host can be checked."""
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
    """Return whether the writer of a temporary file is dead (on this host) or has been silent for a day."""
    _, host, pid, _ = entry.name.rsplit("~", 3)
    if is_gone(host, int(pid)):
        return True
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE_SECONDS


def remove_stale(directory: Path, stem: str = "", *, all_writers: bool = False) -> int:
    """Delete temporary files of dead writers in a directory; those of living writers stay.

    Only files and directories with names made by `temporary_name` are ever deleted.

    Parameters
    ----------
    directory : Path
        A directory of a store; for any other directory, give `stem`.
    stem : str
        Delete only temporary files of the final file of this name.
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
            # Deleting may fail if the writer is alive after all, or on a read-only disk; that does no harm.
            with suppress(OSError):
                if all_writers or _is_stale(entry):
                    remove(Path(entry.path))
                    removed += 1
    return removed


def make_folders(root: Path, folder: Path) -> None:
    """Create a folder and its parents below `root`, but not `root` itself.

    A task that is still running after its job has ended must not bring back the folder that the job deleted.

    Raises
    ------
    OSError
        There is no folder `root`.

    Examples
    --------
    >>> make_folders(Path("absent"), Path("absent/a/b"))
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'absent/a'
    """
    for parent in reversed((folder, *folder.parents)):
        if root in parent.parents:
            parent.mkdir(exist_ok=True)


def remove(path: Path) -> None:
    """Delete a local file or a whole directory, if there is one.

    While another program still writes into a directory, it may not be empty when it is to be deleted. Then
    the deletion is tried again.
    """
    for pause in (*_PAUSES, None):
        try:
            _remove(path)
            break
        except OSError as error:
            if pause is None or error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise
            time.sleep(pause)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except (IsADirectoryError, PermissionError):
        if not path.is_dir():
            raise
        shutil.rmtree(path)
