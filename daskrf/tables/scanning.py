"""Read tables of molecules: scan them once, then read any partition of their rows."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.blas import processors
from daskrf.errors import InputError, check_type
from daskrf.files.backend import as_list, as_path, matching, size_of
from daskrf.molecules.extensions import clean_smiles
from daskrf.seeds import generator
from daskrf.tables.formats import (
    EVERY,
    INDEX_STEP,
    Rows,
    Segment,
    Table,
    TableFormat,
    View,
    reader_of,
    whole,
)
from daskrf.tables.layout import MAX_LINE_BYTES, detect_layout, molecules, with_common_columns
from daskrf.tables.library import Layout, Library, Partition, Reject, RowBatch, Source
from daskrf.tables.spool import Spool, SpoolWriter
from daskrf.tables.streams import text_blocks

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_SAMPLE_PLACES = 100
_MOST_THREADS = 9  # with which bzip2 is unpacked as fast as the lines are counted


def scan(
    paths: Paths,
    fmt: TableFormat | None = None,
    rows_per_partition: int | None = None,
    spool: PurePath | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Library:
    """Scan the input files in one pass and in bounded memory.

    Parameters
    ----------
    paths : path, or sequence of paths and glob patterns
        Text tables, plain or compressed with gzip, bzip2 or zstd, and Parquet files, whatever their names.
    fmt : TableFormat, optional
    rows_per_partition : int, optional
        By default 1/64 of the rows, but at least 2,000 and at most 100,000.
    spool : Path, optional
        Directory for a copy of the rows of long compressed files: zstd files of 20,000 rows each. With it
        any partition is read directly; without it a partition of a compressed file is read from the start
        of the file. It is only a cache and may be deleted.
    on_bytes : callable, optional
        Called with the number of bytes read from disk, for a progress bar.

    Returns
    -------
    Library

    Raises
    ------
    InputError
        If a file is missing, damaged or of unknown layout, or all files together have no rows.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from daskrf.tables import read_partition, scan
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "three.smi")
    ...     _ = path.write_text("CCO ethanol\\n\\nCC |some extension| ethane\\n")
    ...     library = scan(path)
    ...     batch, = read_partition(library, 0)
    >>> library.n_rows, batch.row.tolist(), batch.id, [reject.reason for reject in batch.rejects]
    (3, [0, 2], ['ethanol', 'ethane'], ['empty line'])
    """
    return scan_files(lay_out(paths, fmt), rows_per_partition, spool, on_bytes)


def scan_files(
    files: Iterable[tuple[PurePath, Layout]],
    rows_per_partition: int | None = None,
    spool: PurePath | None = None,
    on_bytes: Callable[[int], None] | None = None,
    *,
    empty_ok: bool = False,
) -> Library:
    """Scan files whose layout is known from `lay_out`; see `scan`. With `empty_ok` there may be no rows."""
    if rows_per_partition is not None and rows_per_partition < 1:
        raise InputError(f"rows per partition must be at least 1, not {rows_per_partition}.")
    sources: list[Source] = []
    indexes: list[list[int]] = []
    for path, layout in files:
        size, digest, rows, index = survey(path, layout, spool, on_bytes or (lambda count: None))
        sources.append(Source(str(path), size, digest, rows, layout))
        indexes.append(index)
    n_rows = sum(source.rows for source in sources)
    if n_rows == 0 and not empty_ok:
        what = f"{sources[0].path} holds" if len(sources) == 1 else f"the {len(sources)} input files hold"
        raise InputError(f"{what} no rows; check that the right files are given.")
    step = rows_per_partition or usual_rows(n_rows)
    return Library(tuple(sources), _partitions(sources, indexes, step), step)


def lay_out(paths: Paths, fmt: TableFormat | None = None) -> list[tuple[PurePath, Layout]]:
    """Return each file named by `paths` with its layout; only the first lines are read.

    Raises
    ------
    InputError
        If a file is missing or of unknown layout, or its name is not UTF-8.
    """
    check_type("format", fmt, TableFormat, 'TableFormat(smiles_column="smiles")')
    fmt = fmt or TableFormat()
    files: list[tuple[PurePath, Layout]] = []
    named: Layout | None = None
    for path in map(as_path, expand(paths)):  # raises on names that no plan can hold
        layout = detect_layout(path, fmt, named)
        if layout.header:
            named = layout
        files.append((path, layout))
    if EVERY in fmt.extra:
        common = with_common_columns([layout for _, layout in files])
        files = [(path, layout) for (path, _), layout in zip(files, common, strict=True)]
    return files


def usual_rows(n_rows: int) -> int:
    """Return the default number of rows per partition: 1/64 of all, between 2,000 and 100,000."""
    return int(np.clip(-(-n_rows // 64), 2_000, 100_000))


def survey(
    path: PurePath,
    table: Table,
    spool: PurePath | None = None,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> tuple[int, str, int, list[int]]:
    """Read a file once; return its size in bytes, SHA-256, number of rows, and stream index.

    The index has the offset of every 10,000th row. The rows of a long compressed file are copied to `spool`.
    """
    digest = hashlib.sha256()
    size = 0

    def watch(block: bytes) -> None:
        nonlocal size
        digest.update(block)
        size += len(block)
        on_bytes(len(block))

    # One more than processors: this thread counts lines, and some thread often waits for another.
    threads = min(processors() + 1, _MOST_THREADS) if processors() > 1 else 1
    blocks = text_blocks(path, table.compression, watch, threads)
    with SpoolWriter(as_path(spool)) if spool and table.compression else nullcontext() as writer:
        rows, index = reader_of(table).scan(path, table, blocks, writer)
        if writer is not None:
            writer.publish(digest.hexdigest())
    return size, digest.hexdigest(), rows, index


def _partitions(sources: list[Source], indexes: list[list[int]], step: int) -> tuple[Partition, ...]:
    """Cut the rows of all sources into partitions of `step` rows."""
    n_rows = sum(source.rows for source in sources)
    starts = np.cumsum([0, *(source.rows for source in sources)]).tolist()
    partitions = []
    current = 0
    for start in range(0, n_rows, step):
        stop = min(start + step, n_rows)
        segments = []
        while current < len(sources) and starts[current] < stop:
            first = max(start, starts[current])
            last = min(stop, starts[current + 1])
            if last > first:
                segments.append(_segment(current, first - starts[current], last - first, indexes[current]))
            if starts[current + 1] > stop:
                break
            current += 1
        partitions.append(Partition(start, stop, tuple(segments)))
    return tuple(partitions)


def segments_of(n_rows: int, index: list[int], step: int) -> list[Segment]:
    """Cut the rows of one file, of which `survey` returned the stream index, into segments of `step` rows."""
    return [_segment(0, first, min(step, n_rows - first), index) for first in range(0, n_rows, step)]


def _segment(source: int, first_row: int, n_rows: int, index: list[int]) -> Segment:
    """Return a segment that starts at the last indexed row before `first_row`."""
    if not index:  # the format seeks rows by number
        return Segment(source, first_row, n_rows, 0, 0)
    entry = first_row // INDEX_STEP
    return Segment(source, first_row, n_rows, index[entry], first_row - entry * INDEX_STEP)


def read_partition(
    library: Library, p: int, spool: PurePath | None = None, rows: npt.NDArray[np.int64] | None = None
) -> Iterator[RowBatch]:
    """Yield the rows of partition `p` in order, in batches of at most 10,000 rows of one file.

    Parameters
    ----------
    library : Library
    p : int
        Number of the partition.
    spool : Path, optional
        The directory that :func:`scan` was given.
    rows : int64 array, optional
        Ascending numbers of the rows that are wanted; batches then hold only these, without rejects.

    Raises
    ------
    InputError
        As `read_rows`.
    """
    for segment in library.partitions[p].segments:
        yield from read_rows(library, [segment], spool, rows)


def every_row(library: Library, p: int, spool: PurePath | None = None) -> Iterator[RowBatch]:
    """Yield all rows of partition `p` in order, also those that cannot be read, with what is known of them.

    A row without SMILES has an empty one. Batches have no rejects: see `read_partition`.

    Raises
    ------
    InputError
        As `read_rows`.
    """
    for segment in library.partitions[p].segments:
        yield from read_rows(library, [segment], spool, every=True)


def read_rows(
    library: Library,
    segments: Sequence[Segment],
    spool: PurePath | None = None,
    wanted: npt.NDArray[np.int64] | None = None,
    *,
    every: bool = False,
) -> Iterator[RowBatch]:
    """Yield the rows of ascending segments of one file in batches of at most 10,000, or those wanted.

    With `every`, rejects are rows, too: see `every_row`. Without the folder `spool`, a compressed file is
    decompressed once for all segments.

    Raises
    ------
    InputError
        If the file has changed size since the scan, or cannot be read. Changed content of the same size is
        not detected here: the digest would take a pass over the whole file.
    """
    index = segments[0].source
    source = library.sources[index]
    try:
        if size_of(as_path(source.path)) != source.bytes:
            raise _changed(source)
    except OSError as error:
        raise InputError(
            f"{source.path} cannot be read ({error.strerror}); it was there at the scan.", errno=error.errno
        ) from None
    start = library.starts[index]
    rows_in_file = None if wanted is None else wanted - start
    left = sum(_rows_in(segment, rows_in_file) for segment in segments)
    place = Spool(spool, source.sha256) if spool else None
    for rows in _read(as_path(source.path), source.layout, segments, place, rows_in_file):
        batch = (_every if every else _batch)(index, start, source.layout, rows)
        n_read = rows.n_read
        if wanted is not None:  # a row that is wanted may be a reject
            n_read = int(np.isin([reject.row for reject in batch.rejects], wanted).sum())
            batch = batch.of(np.flatnonzero(np.isin(batch.row, wanted)))
            n_read += len(batch.row)
        left -= n_read
        yield batch
    if left:
        raise _changed(source)


def _rows_in(segment: Segment, wanted: npt.NDArray[np.int64] | None) -> int:
    """Return how many rows a segment has, or how many of those wanted, which are numbers in the file."""
    if wanted is None:
        return segment.n_rows
    first, last = np.searchsorted(wanted, [segment.first_row, segment.first_row + segment.n_rows])
    return int(last - first)


def first_rows(path: PurePath, layout: Layout, n_rows: int) -> RowBatch | None:
    """Return up to `n_rows` rows from the start of a file, or None if it has none."""
    rows = next(_read(path, layout, [whole(layout, n_rows)]), None)
    return None if rows is None else _batch(0, 0, layout, rows)


def _read(
    path: PurePath,
    layout: Layout,
    segments: Iterable[Segment],
    spool: Spool | None = None,
    wanted: npt.NDArray[np.int64] | None = None,
) -> Iterator[Rows]:
    columns = [layout.smiles, *([] if layout.id is None else [layout.id]), *(at for _, at in layout.extra)]
    return reader_of(layout).read(View(path, layout, columns, molecules(), wanted), segments, spool)


def _changed(source: Source) -> InputError:
    return InputError(f"{source.path} has changed since it was scanned; restore it or start a new store.")


def _batch(source: int, start: int, layout: Layout, rows: Rows) -> RowBatch:
    """Return rows of a file that begins at row `start` of the library; rows without SMILES are rejects.

    A missing ID becomes row-<n>.
    """
    rejects = [Reject(start + row, source, line, text, reason) for row, line, text, reason in rows.faults]
    row, line, (cells, *columns) = start + rows.row, rows.line, rows.columns
    texts = [text or "" for text in cells]
    every = "\n".join(texts)
    smiles = [clean_smiles(text) for text in texts] if " " in every or "\t" in every else texts
    if not all(smiles) or max(map(len, texts), default=0) > MAX_LINE_BYTES:
        accepted = []
        for k, (text, raw) in enumerate(zip(smiles, texts, strict=True)):
            long = len(raw) > MAX_LINE_BYTES
            if text and not long:
                accepted.append(k)
                continue
            reason = f"longer than {MAX_LINE_BYTES:,} bytes" if long else "no SMILES"
            rejects.append(Reject(int(row[k]), source, int(line[k]), rows.text(k), reason))
        rejects.sort(key=lambda reject: reject.row)
        row, line = row[accepted], line[accepted]
        smiles, columns = [smiles[k] for k in accepted], [[column[k] for k in accepted] for column in columns]
    ids = [(name or "").strip() for name in columns.pop(0)] if layout.id is not None else [""] * len(smiles)
    if not all(ids):
        ids = [name or f"row-{number}" for name, number in zip(ids, row.tolist(), strict=True)]
    extra = dict(zip((key for key, _ in layout.extra), columns, strict=True))
    return RowBatch(row, line, np.full(len(row), source, dtype=np.int32), ids, smiles, extra, rejects)


def _every(source: int, start: int, layout: Layout, rows: Rows) -> RowBatch:
    """Return all rows of a file, also those that `_batch` rejects: without what could not be read."""
    place = np.argsort(np.concatenate([rows.row, [fault.row for fault in rows.faults]]), kind="stable")
    lost = [None] * len(rows.faults)
    columns = [[whole[k] for k in place] for whole in ([*column, *lost] for column in rows.columns)]
    row, line = (
        np.concatenate([readable, np.array(unreadable, np.int64)])[place]
        for readable, unreadable in (
            (start + rows.row, [start + fault.row for fault in rows.faults]),
            (rows.line, [fault.line for fault in rows.faults]),
        )
    )
    smiles = [clean_smiles(text) if text and len(text) <= MAX_LINE_BYTES else "" for text in columns.pop(0)]
    ids = columns.pop(0) if layout.id is not None else [None] * len(smiles)
    names = [(name or "").strip() or f"row-{k}" for name, k in zip(ids, row.tolist(), strict=True)]
    extra = dict(zip((key for key, _ in layout.extra), columns, strict=True))
    return RowBatch(row, line, np.full(len(row), source, dtype=np.int32), names, smiles, extra, [])


def sample_rows(library: Library, n: int, seed: int = 0, spool: PurePath | None = None) -> list[RowBatch]:
    """Return `n` rows (all, if there are fewer) from 100 random places in the library.

    Every row has the same probability. Each place gives n / 100 consecutive rows and costs one seek; files
    are often sorted, so the head of a file would not represent the rest.

    Parameters
    ----------
    library : Library
    n : int
        Number of rows; rounded down to a multiple of the rows at one place.
    seed : int
    spool : Path, optional
        The directory that :func:`scan` was given. Without it a compressed file is decompressed once.

    Returns
    -------
    list of RowBatch
        In row order, rejected rows included.

    Raises
    ------
    InputError
        If `n` is not positive, or as in `read_rows`.
    """
    if n < 1:
        raise InputError(f"the number of sampled rows must be at least 1, not {n}.")
    rows = _sampled(library.n_rows, n, seed)
    source = np.searchsorted(library.starts, rows, side="right") - 1
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(source) != 0)) + 1
    windows = [_window(library, int(run[0]), len(run)) for run in np.split(rows, breaks)]
    batches: list[RowBatch] = []
    for _, group in itertools.groupby(windows, key=lambda window: window.source):
        batches.extend(read_rows(library, list(group), spool))
    return batches


def _sampled(n_rows: int, n: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the sorted rows of a sample: random runs of equal length on the circle of all rows."""
    if n >= n_rows:
        return np.arange(n_rows, dtype=np.int64)
    random = generator(seed, "sample-rows")
    run = -(-n // _SAMPLE_PLACES)
    places = random.choice(n_rows // run, size=n // run, replace=False)
    rows = (places[:, None] * run + np.arange(run) + random.integers(n_rows)) % n_rows
    return np.sort(rows.ravel())


def _window(library: Library, row: int, count: int) -> Segment:
    """Return the segment of `count` rows of one file starting at row `row` of the library."""
    for segment in library.partitions[row // library.rows_per_partition].segments:
        first_row = row - library.starts[segment.source]
        if segment.first_row <= first_row < segment.first_row + segment.n_rows:
            return Segment(
                segment.source, first_row, count, segment.offset, segment.skip + first_row - segment.first_row
            )
    raise IndexError(row)


def expand(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[PurePath]:
    """Return the files named by `paths`, folders and glob patterns, in the order given, sorted within each.

    A folder stands for all files in it and below it, but those whose names begin with "." or "_".

    Raises
    ------
    InputError
        If a path does not exist, is an empty folder, or is given twice, or a pattern matches nothing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from daskrf.tables import expand
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.smi", "a.smi"):
    ...         _ = pathlib.Path(folder, name).write_text("CCO\\n")
    ...     [path.name for path in expand(folder + "/*.smi")]
    ['a.smi', 'b.smi']
    """
    patterns = as_list(paths)
    if not patterns:
        raise InputError("no input files are given; name at least one file or pattern.")
    files: dict[PurePath, None] = {}
    for item in patterns:
        for path in matching(as_path(item)):
            as_path(path)  # raises on a name that no store could hold
            if path in files:
                raise InputError(f"{path} is given twice; its rows would be counted twice, so name it once.")
            files[path] = None
    return list(files)
