"""Files that a job writes at its end: they replace what a killed run of it has written, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from daskrf.errors import StoreError
from daskrf.storage.backend import backend, exists, is_file, refuse_existing, remove_stale
from daskrf.storage.files import digests_of_file, digests_of_stream, file_errors
from daskrf.storage.integrity import read_sealed, write_sealed

__all__ = ["refuse_others", "writing"]


def refuse_others(path: PurePath, work: PurePath, *, overwrite: bool) -> None:
    """Refuse to write where something is, unless it is what an unfinished run has written.

    Parameters
    ----------
    path : Path
    work : Path
        Folder of what runs leave until they have finished.
    overwrite : bool
        Whether anything may be replaced.

    Raises
    ------
    StoreError
        Something else is there.
    """
    with file_errors("read", path):
        if not _is_own(path, work):
            refuse_existing(path, overwrite)


@contextmanager
def writing(path: PurePath, work: PurePath, *, overwrite: bool) -> Iterator[Path]:
    """Yield a local file that gets its final name at the end of the block, as `Backend.writing` does.

    What an unfinished run has written there is replaced by the same, and not by anything else.

    Raises
    ------
    StoreError
        Something else is there, or the file cannot be written.
    """
    remove_stale(path.parent, path.name)  # left by a killed run
    with file_errors("write", path), backend(path).writing(path) as staged:
        yield staged
        size, checksum, _ = digests_of_file(staged)
        if not (exists(path) and _digests(path) == (size, checksum)):
            refuse_existing(path, overwrite)
        write_sealed(_record(path, work), {"bytes": size, "crc32c": checksum})


def _is_own(path: PurePath, work: PurePath) -> bool:
    """Return whether a file is as an unfinished run has written it."""
    record = _record(path, work)
    if not (is_file(record) and is_file(path)):
        return False
    try:
        known = read_sealed(record, "")
    except StoreError:
        return False
    return _digests(path) == (known["bytes"], known["crc32c"])


def _digests(path: PurePath) -> tuple[int, str]:
    if not is_file(path):
        return -1, ""
    with backend(path).open(path) as file:
        return digests_of_stream(file)[:2]


def _record(path: PurePath, work: PurePath) -> PurePath:
    """Return where it stands which file was written, before the run has finished."""
    return work / f"written-{path.name}"
