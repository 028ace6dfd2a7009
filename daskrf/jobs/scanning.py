"""What the input files hold: found by a pass over all of them, or as another process has planned it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from daskrf.errors import StoreError
from daskrf.jobs.progress import Progress
from daskrf.molecules import (
    Library,
    TableFormat,
    check_first_lines,
    is_spooled,
    lay_out,
    scan_files,
    table_words,
    usual_rows,
)
from daskrf.storage.plans import differences

__all__ = ["library_of", "scan_inputs", "tables_of"]

Paths = str | os.PathLike[str]


def scan_inputs(
    inputs: Paths | Sequence[Paths],
    format: TableFormat | None,
    rows_per_partition: int | None,
    spool: Path | None,
    progress: Progress,
    *,
    accept_rejects: bool,
) -> Library:
    """Read all input files once: digests, row counts, and where each partition begins.

    Before that the user is told how each is read, and files of which most of the first lines are no molecules
    are refused unless `accept_rejects` is set.
    """
    files = lay_out(inputs, format)
    for line in table_words(files):
        progress.note(line)
    if not accept_rejects:
        check_first_lines(files, format)
    progress.start("scan", sum(path.stat().st_size for path, _ in files), "bytes")
    library = scan_files(files, rows_per_partition, spool=spool, on_bytes=progress.advance)
    progress.finish()
    return library


def tables_of(library: Library) -> tuple[str, ...]:
    """Return how the files of a library were read, one line for each different layout: for reports."""
    return table_words((source.path, source.layout) for source in library.sources)


def library_of(
    planned: Library | None,
    inputs: Paths | Sequence[Paths],
    format: TableFormat | None,
    rows_per_partition: int | None,
    spool: Path | None,
    progress: Progress,
    *,
    unpacked: bool,
    accept_rejects: bool = False,
) -> Library:
    """Return what the input files hold: as `planned`, if names, sizes and layouts are the same, or by a scan.

    Parameters
    ----------
    planned : Library or None
        What another process has found, whose digests are believed.
    unpacked : bool
        Scan all the same where what lies deep in compressed files is not in the folder `spool`; without it,
        `spool` may be None.
    accept_rejects : bool
        Scan files of which most of the first lines are no molecules.

    Raises
    ------
    StoreError
        If other files were planned, or other rows of a partition.
    """
    if planned is not None:
        _check_same(planned, inputs, format, rows_per_partition)
        if not unpacked or (spool and all(is_spooled(spool, source) for source in planned.sources)):
            for line in tables_of(planned):
                progress.note(line)
            return planned
    return scan_inputs(inputs, format, rows_per_partition, spool, progress, accept_rejects=accept_rejects)


def _check_same(
    planned: Library,
    inputs: Paths | Sequence[Paths],
    format: TableFormat | None,
    rows_per_partition: int | None,
) -> None:
    found = [
        {"path": str(path), "bytes": path.stat().st_size, "layout": layout.state()}
        for path, layout in lay_out(inputs, format)
    ]
    old = [{"path": s.path, "bytes": s.bytes, "layout": s.layout.state()} for s in planned.sources]
    differing = differences(
        {"rows_per_partition": planned.rows_per_partition, "sources": old},
        {"rows_per_partition": rows_per_partition or usual_rows(planned.n_rows), "sources": found},
    )
    if differing:
        raise StoreError(
            f"The job was prepared for other input files or options: {differing}; repeat those, or give "
            "another output path."
        )
