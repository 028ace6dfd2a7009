"""What the input files hold: found by a pass over all of them, or as another process has planned it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from daskrf.drivers.progress import Progress
from daskrf.errors import StoreError
from daskrf.molecules import Library, TableFormat, expand, is_spooled, lay_out, scan, usual_rows
from daskrf.stores.plans import differences

__all__ = ["library_of", "scan_inputs"]

Paths = str | os.PathLike[str]


def scan_inputs(
    inputs: Paths | Sequence[Paths],
    format: TableFormat | None,
    rows_per_partition: int | None,
    spool: Path | None,
    progress: Progress,
) -> Library:
    """Read all input files once: digests, row counts, and where each partition begins."""
    paths = expand(inputs)
    progress.start("scan", sum(path.stat().st_size for path in paths), "bytes")
    library = scan(paths, format or TableFormat(), rows_per_partition, spool=spool, on_bytes=progress.advance)
    progress.finish()
    return library


def library_of(
    planned: Library | None,
    inputs: Paths | Sequence[Paths],
    format: TableFormat | None,
    rows_per_partition: int | None,
    spool: Path | None,
    progress: Progress,
    *,
    unpacked: bool,
) -> Library:
    """Return what the input files hold: as `planned`, if names, sizes and layouts are the same, or by a scan.

    Parameters
    ----------
    planned : Library or None
        What another process has found, whose digests are believed.
    unpacked : bool
        Scan all the same where what lies deep in compressed files is not in the folder `spool`; without it,
        `spool` may be None.

    Raises
    ------
    StoreError
        If other files were planned, or other rows of a partition.
    """
    if planned is not None:
        _check_same(planned, inputs, format, rows_per_partition)
        if not unpacked or (spool and all(is_spooled(spool, source) for source in planned.sources)):
            return planned
    return scan_inputs(inputs, format, rows_per_partition, spool, progress)


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
