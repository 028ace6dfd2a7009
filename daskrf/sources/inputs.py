"""Inputs of commands: a store, or files that were scanned here or planned by another process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from daskrf.errors import InputError, StoreError
from daskrf.files.backend import as_list, as_path, size_of
from daskrf.jobs.job import Run
from daskrf.molecules.counts.spec import Fragments
from daskrf.sources.smiles import SmilesSource
from daskrf.sources.sources import Source
from daskrf.storage.differences import differences
from daskrf.tables import (
    Library,
    TableFormat,
    check_first_lines,
    given_words,
    is_spooled,
    lay_out,
    scan_files,
    table_words,
    usual_rows,
)
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]


@dataclass(frozen=True)
class Input:
    """The molecules that a command is given, and how files of them are read.

    Attributes
    ----------
    source : path, data in memory, or a sequence of them
        A store of fingerprints or features, files of molecules, a space, or files that
        `daskrf.sources.given` has written from data in memory.
    format : TableFormat or None
        The layout of the files; None: found by content.
    fragments : {"keep", "largest", "reject"} or None
        What to do with molecules of several fragments; None: as in the training of the model.
    accept_rejects : bool
        Whether files are read whose first lines are mostly not molecules.
    """

    source: Any
    format: TableFormat | None = None
    fragments: Fragments | None = None
    accept_rejects: bool = False

    @functools.cached_property
    def paths(self) -> tuple[PurePath, ...]:
        """The store, space, files or patterns."""
        paths = tuple(map(as_path, as_list(self.source)))
        if not paths:
            raise InputError("no input files are given; name at least one file or pattern.")
        return paths


def scan_inputs(
    inputs: Paths | Sequence[Paths],
    format: TableFormat | None,
    rows_per_partition: int | None,
    spool: PurePath | None,
    progress: Progress,
    *,
    accept_rejects: bool,
    empty_ok: bool = False,
) -> Library:
    """Read all input files once for digests, row counts and the start of each partition.

    The user is first told how each file is read; files whose first lines are mostly not molecules are refused
    unless `accept_rejects` is set.
    """
    files = lay_out(inputs, format)
    for line in table_words(files):
        progress.note(line)
    for line in check_first_lines(files, format, accept=accept_rejects):
        progress.note(line)
    progress.start("scan", sum(size_of(path) for path, _ in files), "bytes")
    library = scan_files(files, rows_per_partition, spool=spool, on_bytes=progress.advance, empty_ok=empty_ok)
    progress.finish()
    return library


def tables_of(library: Library) -> tuple[str, ...]:
    """Return how the files of a library were read, one line per distinct layout, for reports."""
    return table_words((source.path, source.layout) for source in library.sources)


def library_of(
    run: Run,
    planned: Callable[[], Library | None],
    inputs: Paths | Sequence[Paths],
    format: TableFormat | None,
    rows_per_partition: int | None,
    accept_rejects: bool,
    *,
    unpacked: bool = True,
    empty_ok: bool = False,
) -> Library:
    """Return the library in the input files, from a scan or, for a shard, from another process's plan.

    Parameters
    ----------
    planned : callable
        Returns the library found by another process, or None. Its digests are trusted if names, sizes and
        layouts of the files are the same.
    unpacked : bool
        Scan anyway if rows of long compressed files are missing from the spool. If False there is no
        spool, as for a complete store, which may be on a read-only disk.
    accept_rejects : bool
        Scan files even if their first lines are mostly not molecules.
    empty_ok : bool
        Whether there may be no rows.

    Raises
    ------
    StoreError
        If different files, or different rows per partition, were planned.
    """
    spool = run.work / "spool" if unpacked else None
    library = None if run.share.whole else planned()
    if library is not None:
        _check_same(library, inputs, format, rows_per_partition)
        if spool is None or all(is_spooled(spool, source) for source in library.sources):
            for line in tables_of(library):
                run.progress.note(line)
            return library
    how = {"accept_rejects": accept_rejects, "empty_ok": empty_ok}
    return scan_inputs(inputs, format, rows_per_partition, spool, run.progress, **how)


def _check_same(
    planned: Library,
    inputs: Paths | Sequence[Paths],
    format: TableFormat | None,
    rows_per_partition: int | None,
) -> None:
    sources = [
        {"path": str(path), "bytes": size_of(path), "layout": layout.state()}
        for path, layout in lay_out(inputs, format)
    ]
    old = [{"path": s.path, "bytes": s.bytes, "layout": s.layout.state()} for s in planned.sources]
    differing = differences(
        {"rows_per_partition": planned.rows_per_partition, "sources": old},
        {"rows_per_partition": rows_per_partition or usual_rows(planned.n_rows), "sources": sources},
    )
    if differing:
        raise StoreError(
            f"The job was prepared for other input files or options: {differing}; repeat those, or give "
            "another output path."
        )


def inputs_of(source: Source) -> tuple[str, ...]:
    """Return how the SMILES files of a source were read, for a report; empty for a store."""
    return tables_of(source.library) if isinstance(source, SmilesSource) else ()


def source_words(paths: Sequence[PurePath]) -> str:
    """Return the first input's name, without its folder, and how many more there are."""
    first = given_words(paths[0]) or paths[0].name
    return f"{first}{f' and {len(paths) - 1:,} more' if len(paths) > 1 else ''}"
