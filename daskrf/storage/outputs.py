"""Files that a job writes at its end: if asked to, they replace files of daskrf, but never other files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

import pyarrow as pa

from daskrf.errors import InputError, OptionError, StoreError
from daskrf.files.backend import as_path, backend, exists, is_file
from daskrf.files.disk import digests_of_file, digests_of_stream, file_errors
from daskrf.storage.hits import Earlier, hits_at, refuse_foreign, rejects_of
from daskrf.storage.integrity import read_sealed, write_sealed
from daskrf.storage.stores.rowstore import REJECT_SCHEMA


@contextmanager
def output_or_temporary(
    output: str | os.PathLike[str] | None, name: str, *, shared: bool = False
) -> Iterator[PurePath]:
    """Yield an output, or one called `name` in a temporary folder, which is deleted at the end.

    Parameters
    ----------
    output : path, optional
    name : str
        A file or folder.
    shared : bool
        Whether several commands work on the output, which then must have a path.

    Raises
    ------
    OptionError
        It has none.
    """
    if output is not None:
        yield as_path(output)
        return
    if shared:
        raise OptionError("A shard needs an output; give --output (output).")
    with tempfile.TemporaryDirectory(prefix="daskrf-") as folder:
        yield Path(folder, name)


def rejects_beside(output: PurePath) -> pa.Table:
    """Return the rejected rows in the file beside an output: row, source, line, text and reason."""
    rejects = hits_at(rejects_of(output))
    return REJECT_SCHEMA.empty_table() if rejects is None else rejects.table


def refuse_others(path: PurePath, work: PurePath | None = None, *, overwrite: bool) -> None:
    """Refuse to replace a file, unless daskrf wrote it and it may be replaced.

    Every command checks every file that it writes, before it begins and again before it replaces anything.

    Parameters
    ----------
    path : Path
    work : Path, optional
        Folder of unfinished work: a file that an unfinished run has written may be written again.
    overwrite : bool
        Whether a file that daskrf has written may be replaced.

    Raises
    ------
    InputError
        Something is there that daskrf has not written, or that was changed since.
    StoreError
        A file of daskrf is there, and `overwrite` is not set.
    """
    with file_errors("read", path):
        if not exists(path) or (work is not None and _is_own(path, work)):
            return
    refuse_foreign(path)
    if not overwrite:
        raise StoreError(f"{path} exists; give another path, or replace it by --overwrite (overwrite=True)")


def earlier_output(path: PurePath, kind: str = "hits", *, overwrite: bool = False) -> Earlier | None:
    """Return the file that an earlier run of the same command has written at a path, if any.

    Parameters
    ----------
    path : Path
    kind : {"hits", "table"}
    overwrite : bool
        Whether anything that daskrf wrote may be replaced.

    Raises
    ------
    InputError
        Something else is there.
    """
    with file_errors("read", path):
        if not exists(path):
            return None
        earlier = hits_at(path)
    if overwrite:
        refuse_foreign(path)
        return earlier if earlier is not None and earlier.kind == kind else None
    if earlier is None or earlier.kind != kind:
        what = "predictions" if kind == "table" else "hits"
        raise InputError(f"{path} exists and does not hold {what} of daskrf; give another output path.")
    return earlier


def guarded(path: PurePath, work: PurePath | None = None, *, overwrite: bool) -> Callable[[Path], None]:
    """Return the check to call with a written file before it replaces `path`; see `refuse_others`.

    A file that an unfinished run has written there is replaced only by one with the same content.
    """

    def check(staged: Path) -> None:
        size, checksum, _ = digests_of_file(staged)
        if not (exists(path) and _digests(path) == (size, checksum)):
            refuse_others(path, overwrite=overwrite)
        if work is not None:
            write_sealed(_record(path, work), {"bytes": size, "crc32c": checksum})

    return check


def _is_own(path: PurePath, work: PurePath) -> bool:
    """Return whether an unfinished run has written a file, and nobody has changed it since."""
    record = _record(path, work)
    if not (is_file(record) and is_file(path)):
        return False
    try:
        content = read_sealed(record, "")
    except StoreError:
        return False
    return _digests(path) == (content["bytes"], content["crc32c"])


def _digests(path: PurePath) -> tuple[int, str]:
    if not is_file(path):
        return -1, ""
    with backend(path).open(path) as file:
        return digests_of_stream(file)[:2]


def _record(path: PurePath, work: PurePath) -> PurePath:
    """Return the path of the note with size and digest of a file that an unfinished run has written."""
    return work / f"written-{path.name}"
